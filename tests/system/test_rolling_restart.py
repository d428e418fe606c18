"""Workers come and go on purpose while streams run: each is asked to leave, hands over what it holds and comes back, and no request fails, stalls
for the loading of weights, or has another text than an undisturbed one. LONGHAUL_TEST_ROUNDS: how often every worker is restarted (1)."""

import os
import signal
import sys
import threading
import time
import unittest

from fleet import Fleet
from programs import is_sanitized, memory_for_some_layers, run_tests, wait_until
from stream import Stream

ROUNDS = int(os.environ.get("LONGHAUL_TEST_ROUNDS", "1"))
PROMPTS = ["Once upon a time there was a lighthouse keeper who", "The three laws of thermodynamics are"]
SETTINGS = [{"temperature": 0}, {"temperature": 1, "seed": 7}]
TOKENS = 48
DRAIN_S = 120
TIMES = ["--renew-ms", "100", "--plan-delay-ms", "200", "--replay-timeout-ms", "30000"]


class Load:
    """Streams without an end, two at a time, each compared with the text that it had at first."""

    def __init__(self, port):
        self.port = port
        self.expected = [self.one(number) for number in range(len(PROMPTS))]
        self.wrong, self.pauses, self.count, self.is_over = [], [], 0, False
        self.threads = [threading.Thread(target=self.go_on, args=(number,)) for number in range(len(PROMPTS))]

    def one(self, number):
        with Stream(self.port, PROMPTS[number], TOKENS, **SETTINGS[number]) as stream:
            stream.finish()
        assert stream.is_done and not stream.error, stream.error
        return stream.text

    def go_on(self, number):
        while not self.is_over:
            try:
                with Stream(self.port, PROMPTS[number], TOKENS, **SETTINGS[number]) as stream:
                    stream.finish()
                if stream.text != self.expected[number] or not stream.is_done:
                    self.wrong.append((number, stream.text, stream.error))
                self.pauses.append(max(stream.gaps))
                self.count += 1
            except (OSError, AssertionError) as error:
                self.wrong.append((number, repr(error)))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()


class RollingRestart(unittest.TestCase):
    def test_every_worker_is_restarted_under_load(self):
        with Fleet(3, gateway_flags=[*TIMES, "--rebalance-delay-ms", "1500"], worker_flags=["--kv-bytes", "64M"]) as fleet:
            load = Load(fleet.port)
            with load:
                for turn in range(3 * ROUNDS):
                    self.restart(fleet, turn % 3)
                if not is_sanitized():
                    wait_until(lambda: len(self.stages(fleet)) == 3, "all three are used again")
            self.assertEqual(load.wrong, [])
            self.assertEqual(fleet.fleet_state()["queue"]["totals"]["failed"], 0)
            print(f"    {load.count} streams, longest pause {max(load.pauses) * 1000:.0f} ms")
            self.assertGreaterEqual(load.count, 2)

    def stages(self, fleet):
        chains = fleet.fleet_state()["chains"]
        return [stage["worker"] for stage in chains[0]["stages"]] if chains else []

    def restart(self, fleet, number):
        worker, name = fleet.workers[number], f"worker-{number + 1}"
        started = time.monotonic()
        worker.process.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(), 0)
        print(f"    {name} has left after {(time.monotonic() - started) * 1000:.0f} ms")
        self.assertNotIn(name, self.stages(fleet))
        self.assertIn("it has no part in a chain", worker.log_text())
        self.assertEqual(fleet.get("/health")[0], 200)
        fleet.start_worker(number)
        wait_until(lambda: any(w["name"] == name and not w["leaving"] for w in fleet.fleet_state()["workers"]), "it is back")


class NobodyTakesOver(unittest.TestCase):
    """Neither of two workers holds the whole model."""

    def test_leaving_ends_in_time(self):
        flags = ["--kv-bytes", "64M", "--memory-bytes", memory_for_some_layers(), "--drain-timeout"]
        with Fleet(2, gateway_flags=[*TIMES[:-1], "300"], worker_flags=[*flags, "1"]) as fleet:
            worker = fleet.workers[1]
            with Stream(fleet.port, PROMPTS[0], 1500) as stream:
                stream.read(3)
                started = time.monotonic()
                worker.process.send_signal(signal.SIGTERM)
                wait_until(lambda: "nobody can take over" in worker.log_text(), "it says why it stays")
                stream.read(3)
                self.assertEqual(worker.wait(), 0)
                took = time.monotonic() - started
                stream.finish()
            self.assertGreaterEqual(took, 1)
            self.assertIn("the drain timeout is over", worker.log_text())
            self.assertIsNotNone(stream.error)
            fleet.worker_flags[-1] = str(DRAIN_S)  # so long that whoever waits for it has waited in vain
            fleet.start_worker(1)
            fleet.wait_ready()
            started = time.monotonic()
            fleet.workers[1].process.send_signal(signal.SIGTERM)  # nobody asks anything: it need not wait
            self.assertEqual(fleet.workers[1].wait(), 0)
            self.assertLess(time.monotonic() - started, DRAIN_S / 2)
            fleet.start_worker(1)
            fleet.wait_ready()
            self.second_signal_is_now(fleet)

    def second_signal_is_now(self, fleet):
        worker = fleet.workers[1]
        with Stream(fleet.port, PROMPTS[0], 1500) as stream:
            stream.read(3)
            worker.process.send_signal(signal.SIGTERM)
            wait_until(lambda: "leaving" in worker.log_text().split("started version")[-1], "it has heard")
            started = time.monotonic()
            worker.process.send_signal(signal.SIGTERM)
            self.assertEqual(worker.wait(), 128 + signal.SIGTERM)
            self.assertLess(time.monotonic() - started, DRAIN_S / 2)
            stream.finish()
        self.assertIsNotNone(stream.error)
        fleet.start_worker(1)
        fleet.wait_ready()  # before it is told to stop: it must have come to listen to that


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=["RollingRestart"])
