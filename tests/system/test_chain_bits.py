"""One answer, bit for bit: the digests of the logits at every token are the same for 1, 2, 3 and 5 workers, 1 and more column
shards, chunks of 1, 7, 64 and all rows, every instruction set of the machine, more threads, shards over several connections, company in the batch. The real programs and
the real model; the whole product of the settings runs in one process (tests/worker/tool_logits.c), with the model's first layers, as does the
scalar reference."""

import concurrent.futures
import contextlib
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from first_layers import first_layers
from fleet import Fleet
from programs import IS_QUICK, build_folder, need_model, run_tests

PROMPT = (
    "We the People of the United States, in Order to form a more perfect Union, establish Justice, insure domestic Tranquility, "
    "provide for the common defence, promote the general Welfare, and secure the Blessings of Liberty to ourselves and our "
    "Posterity, do ordain and establish this Constitution for the United States of America. Article I. Section 1. All "
    "legislative Powers herein granted shall be vested in a Congress"
)
TOKENS = 12
# The reference is scalar: so much of the prompt is enough for it, and the first layers.
SHORT = PROMPT[:64]


def complete(url, prompt=PROMPT, tokens=TOKENS, **extra):
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "logprobs": 3, "ignore_eos": True, **extra}
    request = urllib.request.Request(
        url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        choice = json.load(answer)["choices"][0]
    return choice["text"], choice["logprobs"]


@contextlib.contextmanager
def fleet_of(workers, isa="auto", threads=1, wire="f32", connections=1, activations="q8", model=None):
    """Yields what takes a prompt and its cut, and gives the answer and its digests."""
    flags = ["--logits-digest", "--prefix-cache", "off", "--wire", wire, "--activations", activations, "--sites", ",".join(f"site-{i + 1}" for i in range(workers))]
    worker_flags = ["--isa", isa, "--kv-bytes", "128M", "--hop-connections", str(connections)]
    with Fleet(workers, gateway_flags=flags, worker_flags=worker_flags, threads=threads, model=model) as fleet:

        def run(overlap="rows=64,columns=4", prompt=PROMPT):
            answer = complete(fleet.url, prompt, longhaul={"overlap": overlap})
            result = fleet.drawn()
            assert len(result) == TOKENS, result
            return answer, result

        yield run


def instruction_sets():
    """Those that this machine runs; the reference is scalar, and so slow that it gets one run of its own."""
    flags = next(line for line in open("/proc/cpuinfo") if line.startswith("flags")).split()
    sets = {"avx2": {"avx2", "fma", "f16c"}, "avx512": {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"}}
    for name, needs in sets.items():
        if not needs <= set(flags):
            print(f"not run: this machine has no {name}")
    return [name for name, needs in sets.items() if needs <= set(flags)]


class ChainBits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with fleet_of(1) as run:
            cls.expected = run("off")
            cls.alone = run("rows=64,columns=4")

    def check(self, overlaps=("rows=64,columns=4",), **settings):
        with fleet_of(**settings) as run:
            for overlap in overlaps:
                with self.subTest(overlap=overlap, **settings):
                    self.assertEqual(run(overlap), self.expected)

    def test_one_worker_takes_a_prompt_in_chunks(self):
        self.assertEqual(self.alone, self.expected)

    def test_three_workers_and_every_kind_of_cut(self):
        cuts = ["rows=64", "rows=64,columns=4", "auto"]
        self.check(cuts if IS_QUICK else [*cuts, "rows=1,columns=2", "rows=7,columns=16", "rows=512,columns=4", "off"], workers=3)

    def test_two_workers_and_five(self):
        for workers in (2, 5):
            self.check(["rows=64", "rows=64,columns=4"], workers=workers)

    def test_instruction_sets(self):
        for isa in instruction_sets():
            self.check(workers=2, isa=isa)
        model = first_layers(need_model())
        with fleet_of(1, model=model) as run:
            expected = run("off", SHORT)
        with fleet_of(2, isa="reference", model=model) as run:
            self.assertEqual(run(prompt=SHORT), expected)

    def test_threads(self):
        self.check(workers=2, threads=3)

    def test_hop_connections(self):
        self.check(["rows=7,columns=4"], workers=3, connections=4)

    def test_company_in_the_batch(self):
        with Fleet(2, gateway_flags=["--max-sequences", "16"]) as fleet:
            others = [f"{i}. {PROMPT[i * 7:]}" for i in range(8)]
            with concurrent.futures.ThreadPoolExecutor(9) as pool:
                company = [pool.submit(complete, fleet.url, other, 40, temperature=1, seed=i) for i, other in enumerate(others)]
                mine = [pool.submit(complete, fleet.url) for _ in range(4)]
                for answer in mine:
                    self.assertEqual(answer.result(), self.expected[0])
                for answer in company:
                    self.assertTrue(answer.result()[1]["tokens"])

    def test_a_lossy_wire_depends_on_the_split_alone(self):
        for wire in ("f16", "q8"):
            with fleet_of(2, wire=wire) as run:
                first = run("off")
                self.assertNotEqual(first, self.expected)
                for overlap in ("rows=64,columns=4", "rows=7,columns=3", "auto"):
                    with self.subTest(wire=wire, overlap=overlap):
                        self.assertEqual(run(overlap), first)

    def test_more_precise_activations(self):
        with fleet_of(1, activations="q16") as run:
            first = run("off")
            self.assertNotEqual(first[1], self.expected[1])
        with fleet_of(2, activations="q16", isa=(instruction_sets() or ["auto"])[0], threads=2) as run:
            self.assertEqual(run("rows=7,columns=4"), first)

    def test_every_setting_in_one_process(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tokens = pathlib.Path(folder.name) / "tokens.txt"
        tokens.write_text(" ".join(str(7 * i % 40000 + 20) for i in range(40)))
        model = first_layers(need_model())
        q8 = itertools.product(instruction_sets(), (1, 2, 3, 5), (1, 4), (1, 7, 32, 40))
        q16 = itertools.product(instruction_sets(), (1, 3), (4,), (7, 40))
        caches = [(isa, stages, 4, chunk) for isa in instruction_sets() for stages, chunk in ((1, 40), (3, 7))]
        formats = (("q8", "f32", q8), ("q16", "f32", q16), ("q8", "f16", caches), ("q8", "q8", caches))
        for activations, kv_type, settings in formats:
            outputs = {}
            for isa, stages, shards, chunk in settings:
                command = [build_folder() / "tests" / "logits", "--tokens", tokens, "--digest", "--isa", isa]
                command += ["--activations", activations, "--kv-type", kv_type]
                command += ["--model", model, "--stages", str(stages), "--column-shards", str(shards)]
                command += ["--chunk-rows", str(chunk), "--kv-bytes", "16M"]
                out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                outputs.setdefault(out, []).append((isa, stages, shards, chunk))
            self.assertEqual(len(outputs), 1, list(outputs.values()))
            self.assertEqual(len(next(iter(outputs)).splitlines()), 40)


if __name__ == "__main__":
    few = ["ChainBits.test_three_workers_and_every_kind_of_cut", "ChainBits.test_threads", "ChainBits.test_company_in_the_batch"]
    run_tests(sys.modules[__name__], sanitized=few, quick=[*few, "ChainBits.test_a_lossy_wire_depends_on_the_split_alone"])
