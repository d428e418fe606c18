"""--wire auto over emulated links: before the first step, the hop that would hold up prompts gets q8, the fast one f16, as GET /fleet
shows; and the answers are the same however prompts are cut."""

import pathlib
import sys
import unittest

from programs import SKIPPED, build_folder, need_model, run_tests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import sites as bench_sites  # noqa: E402
from bench_fleet import BenchFleet, slowdowns  # noqa: E402

STAGES = 3
# Mbit/s. A row in f16 takes 23 ms and 0.05 ms; a stage, slowed down so that all of them and the links fit the cores, computes one in some 1 to 2 ms, or
# five times as long where others use them too.
SLOW, FAST = 0.4, 200


class SlowFirstHop(BenchFleet):
    def _start_gateway(self):
        self.sites.set(rate=FAST, delay=1, queue=50)
        self.sites.set(0, 1, rate=SLOW, delay=5, queue=50)
        super()._start_gateway()


def start(*flags):
    model = need_model()
    return SlowFirstHop(build_folder(), model, STAGES, slowdowns(None, STAGES), wire="auto", gateway_flags=["--logits-digest", *flags])


def wires(fleet):
    return [link["wire"] for link in fleet.chain()["links"]]


class WireChoice(unittest.TestCase):
    def test_without_permission(self):
        with start() as fleet:
            self.assertEqual(wires(fleet), [None, "f16", "f16", None])

    def test_the_slow_hop_gets_q8(self):
        with start("--wire-allow-q8") as fleet:
            epoch = fleet.chain()["epoch"]
            self.assertEqual(wires(fleet), [None, "q8", "f16", None])
            prompt = fleet.prompt(50)
            answers = [fleet.ask(prompt, tokens=2, overlap=overlap) for overlap in ("off", "rows=7,columns=3", "auto")]
            for answer in answers:
                self.assertEqual(len(answer.digests), 2)
                self.assertEqual(answer.digests, answers[0].digests)
            self.assertEqual(fleet.chain()["epoch"], epoch)


if __name__ == "__main__":
    why = bench_sites.missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    run_tests(sys.modules[__name__])
