"""Workers that compute on a GPU, an emulated one (tests/cuda/emulation), by the real programs: a chain with one beside workers on processors
gives the same answer, also when it is killed while it streams, or draws the tokens; and one that has no GPU says what is missing."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "truth"), str(ROOT / "tests" / "system")]
from fleet import Fleet  # noqa: E402
from programs import build_folder, run_tests, wait_until  # noqa: E402
from small_model import MODELS, Writer  # noqa: E402

EMULATED = build_folder() / "tests" / "longhaul-cuda-emulated.so"
WORKER = build_folder() / "longhaul-worker"
# What wants a token of a row and nothing else: such tokens are drawn on the GPU. The last ones want more, and share steps with the others.
DRAWS = [
    {"temperature": 0},
    {},
    {"top_k": 20, "top_p": 0.8},
    {"min_p": 0.1, "temperature": 1.5},
    {"top_k": 100000},
    {"logit_bias": {"65": 5, "66": -100, "67": 4.5}, "temperature": 1.2},
    {"repetition_penalty": 1.4, "presence_penalty": 0.5, "frequency_penalty": 0.3, "logit_bias": {"70": 3}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "string", "minLength": 20}}}, "ignore_eos": False},
    {"logprobs": 3, "top_p": 0.9},
    {"n": 3, "temperature": 1},
]
BODY = {"prompt": "We the People", "temperature": 0.8, "seed": 3, "logprobs": 2, "ignore_eos": True}


def on_gpu():
    return [WORKER, "--device", "cuda", "--cuda-library", EMULATED]


def post(fleet, **more):
    request = urllib.request.Request(fleet.url + "/v1/completions", json.dumps(dict(BODY, **more)).encode(), {"Content-Type": "application/json"})
    return urllib.request.urlopen(request)


def ask(fleet):
    with post(fleet, max_tokens=12) as answer:
        choice = json.load(answer)["choices"][0]
    return choice["text"], choice["logprobs"], fleet.drawn()


def texts(fleet):
    """Of all draws at once, so that they meet in steps."""
    def text(draw, found):
        with post(fleet, max_tokens=24, **{"logprobs": None, **draw}) as answer:
            found[json.dumps(draw)] = [(choice["text"], choice["logprobs"]) for choice in json.load(answer)["choices"]]

    found = {}
    threads = [threading.Thread(target=text, args=(draw, found)) for draw in DRAWS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


class Chains(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = pathlib.Path(cls.folder.name) / "model.gguf"
        architecture, _, keys, has = MODELS["llama"]
        Writer(cls.model, 1, Type.Q8_0).write(architecture, 6, keys, has)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def fleet(self, workers, digest=("--logits-digest",), model=None, wire="f32", **extra):
        flags = [*digest, "--wire", wire, "--workers", str(min(workers, 2))]
        return Fleet(workers, gateway_flags=flags, worker_flags=["--kv-bytes", "4M"], model=str(model or self.model), **extra)

    def test_one_answer(self):
        with self.fleet(1) as fleet:
            expected = ask(fleet)
        for place in (0, 1):
            with self.subTest(place=place), self.fleet(2, worker_programs={place: on_gpu()}) as fleet:
                self.assertIn("cuda", [worker["isa"] for worker in fleet.fleet_state()["workers"]])
                self.assertEqual(ask(fleet), expected)

    def test_what_leaves_the_gpu_is_packed(self):
        with self.fleet(1) as fleet:
            exact = ask(fleet)[1]["token_logprobs"]
        for wire in ("f16", "q8"):
            with self.subTest(wire=wire), self.fleet(2, wire=wire, worker_programs={0: on_gpu(), 1: on_gpu()}) as fleet:
                rounded = ask(fleet)[1]["token_logprobs"]
                self.assertEqual(len(rounded), len(exact))
                self.assertNotEqual(rounded, exact)
                self.assertAlmostEqual(rounded[0], exact[0], delta=0.05)

    def test_tokens_drawn_on_the_gpu(self):
        with self.fleet(1, digest=()) as fleet:
            expected = texts(fleet)
        self.assertEqual(len(expected), len(DRAWS))
        with self.fleet(1, digest=(), worker_programs={0: on_gpu()}) as fleet:
            found = texts(fleet)
        for draw in expected:
            with self.subTest(draw=draw):
                self.assertEqual(found.get(draw), expected[draw])

    def test_logits_that_are_no_numbers(self):
        model = pathlib.Path(self.folder.name) / "nan.gguf"
        architecture, _, keys, has = MODELS["llama"]
        Writer(model, 1, Type.F32).write(architecture, 2, keys, has)
        head = next(tensor for tensor in GGUFReader(model).tensors if tensor.name == "output.weight")
        with open(model, "r+b") as file:
            file.seek(head.data_offset + 65 * 4 * int(head.shape[0]))
            file.write(b"\0\0\xc0\x7f")
        for programs in ({}, {0: on_gpu()}):
            with self.subTest(programs=programs), self.fleet(1, digest=(), model=model, worker_programs=programs) as fleet:
                with self.assertRaises(urllib.error.HTTPError):
                    post(fleet, max_tokens=3, logprobs=None)
                self.assertIn("sampling: the logit of token 65 is nan", fleet.workers[0].log_text() + fleet.gateway.log_text())

    def test_one_is_killed_while_it_streams(self):
        with self.fleet(1) as fleet, post(fleet, max_tokens=60) as answer:
            expected = json.load(answer)["choices"][0]["text"]
        with self.fleet(3, worker_programs={0: on_gpu()}) as fleet:
            pieces = []
            with post(fleet, max_tokens=60, stream=True) as answer:
                for line in answer:
                    if line.startswith(b"data: {"):
                        pieces += [choice["text"] for choice in json.loads(line[6:])["choices"]]
                        if len(pieces) == 5:
                            fleet.workers[0].process.kill()
            self.assertEqual("".join(pieces), expected)


    def test_fast(self):
        """By cuBLAS, which the emulated library is as well; a worker that lacks it says so."""
        model = pathlib.Path(self.folder.name) / "half.gguf"
        architecture, _, keys, has = MODELS["llama"]
        Writer(model, 1, Type.F16).write(architecture, 2, keys, has)
        answers = []
        for math in ("exact", "fast"):
            flags = {"gateway_flags": ["--gpu-math", math, "--workers", "1"], "worker_flags": ["--kv-bytes", "4M"], "model": str(model)}
            with Fleet(1, worker_programs={0: [*on_gpu(), "--cublas-library", EMULATED]}, **flags) as fleet:
                self.assertEqual(fleet.fleet_state()["numbers"]["gpu_math"], math)
                with post(fleet, max_tokens=8) as answer:
                    answers.append(json.load(answer)["choices"][0]["logprobs"]["token_logprobs"])
        exact, fast = answers
        self.assertNotEqual(exact, fast)
        self.assertAlmostEqual(exact[0], fast[0], delta=0.05)

    def test_fast_without_cublas(self):
        flags = ["--gpu-math", "fast", "--workers", "1", *Fleet.QUICK_START]
        fleet = Fleet(1, gateway_flags=flags, worker_flags=["--kv-bytes", "4M"], model=str(self.model),
                      worker_programs={0: [*on_gpu(), "--cublas-library", "/nowhere/libcublas.so.13"]})
        fleet.wait_ready = lambda: wait_until(lambda: "--gpu-math fast wants cuBLAS" in self.stage_error(fleet), "the worker tells what it lacks")
        with fleet:
            self.assertIn("/nowhere/libcublas.so.13", self.stage_error(fleet))

    @staticmethod
    def stage_error(fleet):
        return next(((worker["assignment"] or {}).get("error") or "" for worker in fleet.fleet_state()["workers"]), "")


class Refusals(unittest.TestCase):
    def refused(self, *flags):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([WORKER, "--state-dir", folder, "--cache-dir", folder, "--gateway", "http://127.0.0.1:1", *flags],
                                  capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stdout + done.stderr

    def test_no_library(self):
        self.assertIn("--device cuda: there is no file /nowhere/kernels.so", self.refused("--device", "cuda", "--cuda-library", "/nowhere/kernels.so"))

    def test_another_library(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(b"no library")
            file.flush()
            self.assertIn("cannot be opened", self.refused("--device", "cuda", "--cuda-library", file.name))

    def test_no_such_gpu(self):
        self.assertIn("there is no GPU 3: the driver knows of 1, 0-0", self.refused("--device", "cuda:3", "--cuda-library", EMULATED))

    def test_no_such_device(self):
        for name in ("gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:999"):
            self.assertIn(f'--device: "{name}" is none of auto, cpu, cuda and cuda:N', self.refused("--device", name))

    def test_no_driver(self):
        real = build_folder() / "longhaul-cuda.so"
        if not real.exists() or pathlib.Path("/dev/nvidiactl").exists():
            self.skipTest("no toolkit has made the library, or there is a GPU")
        self.assertRegex(self.refused("--device", "cuda", "--cuda-library", real), "CUDA does not start: .*nvidia-smi tells")


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=["Chains.test_what_leaves_the_gpu_is_packed", "Chains.test_tokens_drawn_on_the_gpu",
                                                "Chains.test_one_is_killed_while_it_streams", "Chains.test_fast_without_cublas", "Refusals"])
