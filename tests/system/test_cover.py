"""Ready for a loss: while a chain serves, its workers fetch what they would need without one of them; a stream whose worker is killed then goes on with
the same tokens, and nobody fetches anything."""

import re
import sys
import unittest

from fleet import Fleet
from programs import memory_for_some_layers, run_tests, wait_until
from raw_http import ask
from stream import Stream

PROMPT, TOKENS = "The lighthouse keeper climbed the stairs, and", 200
# The chain counts as settled three times this after it is ready.
SETTLED = ["--rebalance-delay-ms", "500"]
HERE = re.compile(r"weights are here layers=(\S+) fetched_bytes=(\d+)")


def losses(fleet):
    return fleet.fleet_state()["chains"][0]["losses"]


def to_fetch(fleet):
    return [stage["layers_to_fetch"] for loss in losses(fleet) for stage in loss["stages"]]


class Cover(unittest.TestCase):
    def test_a_covered_loss_fetches_nothing(self):
        with Fleet(3, fetches=True, gateway_flags=["--wire", "f32", "--cover-share", "100", *SETTLED]) as fleet:
            expected = ask(fleet.port, "POST", "/v1/completions", {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}).json()
            wait_until(lambda: len(losses(fleet)) == 3 and not any(to_fetch(fleet)), "every loss is covered")
            self.assertEqual([loss["possible"] for loss in losses(fleet)], [True] * 3)
            before = [len(HERE.findall(worker.log_text())) for worker in fleet.workers]
            stream = Stream(fleet.port, PROMPT, TOKENS).read(20)
            fleet.workers[1].kill()
            stream.finish()
            self.assertEqual(stream.text, expected["choices"][0]["text"])
            for number in (0, 2):
                # What comes later is the cover of the chain that is left.
                after = HERE.findall(fleet.workers[number].log_text())[before[number]:]
                self.assertTrue(after, "it has got other layers")
                self.assertEqual(after[0][1], "0", after)

    def test_without_it_nobody_fetches(self):
        with Fleet(3, gateway_flags=["--cover", "off", *SETTLED]) as fleet:
            ask(fleet.port, "POST", "/v1/completions", {"prompt": PROMPT, "max_tokens": 8, "ignore_eos": True})
            self.assertEqual(losses(fleet), [])

    def test_two_workers_with_room_for_half_each(self):
        """Nothing would serve without either of them, and that is said before it happens."""
        flags = ["--cover-share", "100", *SETTLED]
        with Fleet(2, gateway_flags=flags, worker_flags=["--memory-bytes", memory_for_some_layers()]) as fleet:
            wait_until(lambda: len(losses(fleet)) == 2, "both losses have been looked at")
            self.assertEqual([(loss["possible"], loss["stages"]) for loss in losses(fleet)], [(False, [])] * 2)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
