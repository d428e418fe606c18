"""Births and deaths in a fleet: the real programs are started, killed and stopped in every order while requests run. A stream goes on by
replay with the very text of an undisturbed run, or ends with an error; it never ends as if it were complete."""

import json
import re
import signal
import sys
import time
import unittest

from fleet import Fleet
from programs import memory_for_some_layers, run_tests, slowness, wait_until
from raw_http import ask
from stream import Stream

SLOWNESS = slowness()
RENEW_MS, LEASE_MS, PLAN_MS, REPLAY_MS = 100, 1200 if SLOWNESS == 1 else 3000, 200, 1500
TIMES = ["--renew-ms", str(RENEW_MS), "--lease-ms", str(LEASE_MS), "--plan-delay-ms", str(PLAN_MS)]
REPLAY = ["--replay-timeout-ms", str(REPLAY_MS)]
PROMPT = "Once upon a time there was a lighthouse keeper who"
GREEDY = {"temperature": 0}
SEEDED = {"temperature": 1, "seed": 7}


def small_fleet(workers=2, gateway_flags=(), worker_flags=()):
    return Fleet(workers, gateway_flags=[*TIMES, *gateway_flags], worker_flags=["--kv-bytes", "64M", *worker_flags], fetches=True)


def complete(fleet, tokens=8, **more):
    body = {"prompt": PROMPT, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}
    return ask(fleet.port, "POST", "/v1/completions", body)


def text_of(reply):
    assert reply.status == 200, reply.body
    return reply.json()["choices"][0]["text"]


def worker_state(fleet, name):
    return next((worker for worker in fleet.fleet_state()["workers"] if worker["name"] == name), None)


def stages(fleet):
    chains = fleet.fleet_state()["chains"]
    return [stage["worker"] for stage in chains[0]["stages"]] if chains else []


def report(what, seconds):
    print(f"    {what}: {seconds * 1000:.0f} ms")


class Restarts(unittest.TestCase):
    """One fleet, whose model needs both workers; each test leaves it whole."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = small_fleet(worker_flags=["--memory-bytes", memory_for_some_layers()]).__enter__()
        cls.expected = text_of(complete(cls.fleet))

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    def tearDown(self):
        if self._outcome.result.failures or self._outcome.result.errors:
            self.fleet.print_logs()

    def is_whole(self):
        self.assertEqual(text_of(complete(self.fleet)), self.expected)
        self.assertEqual(self.fleet.fleet_state()["state"], "ready")

    def test_the_gateway_restarts_under_its_fleet(self):
        logs = [worker.log_text() for worker in self.fleet.workers]
        self.fleet.gateway.kill()
        started = time.monotonic()
        self.fleet.start_gateway()
        self.fleet.wait_ready()
        pause = time.monotonic() - started
        report("gateway restarted, ready again after", pause)
        for worker, log in zip(self.fleet.workers, logs):
            since = worker.log_text()[len(log):]
            self.assertIn("ready chain=main", since)
            self.assertNotIn("dropping", since)
            self.assertNotIn("assigned", since)
        self.is_whole()

    def test_layers_are_written_alike(self):
        """The last one included, at the gateway and at the worker."""
        for worker in self.fleet.workers:
            planned = re.findall(rf"stage planned .* worker={worker.name} layers=(\S+) ", self.fleet.gateway.log_text())
            for event in ("assigned", "weights are here", "loaded"):
                self.assertIn(f"{event} layers={planned[-1]} ", worker.log_text())

    def test_a_worker_restarts(self):
        for number in range(2):
            epoch = self.fleet.fleet_state()["chains"][0]["epoch"]
            self.fleet.workers[number].kill()
            started = time.monotonic()
            self.fleet.start_worker(number)
            wait_until(lambda: self.chain_epoch() > epoch and self.fleet.get("/health")[0] == 200, "a chain of the next epoch")
            report(f"worker {number + 1} restarted, ready again after", time.monotonic() - started)
            self.assertEqual(stages(self.fleet), ["worker-1", "worker-2"])
            self.is_whole()

    def chain_epoch(self):
        chains = self.fleet.fleet_state()["chains"]
        return chains[0]["epoch"] if chains else 0

    def test_workers_first(self):
        """The fixture starts the gateway first; here it comes last, to workers that have waited for it."""
        for program in self.fleet.programs():
            program.kill()
        for number in range(2):
            self.fleet.start_worker(number)
        for worker in self.fleet.workers:
            wait_until(lambda: "no answer of the gateway" in worker.log_text(), "it asks and asks again")
        started = time.monotonic()
        self.fleet.start_gateway()
        self.fleet.wait_ready()
        report("gateway after its workers, ready after", time.monotonic() - started)
        self.is_whole()


class TakingOver(unittest.TestCase):
    """Either worker can hold the whole model, once it has fetched the other's layers: streams wait for that."""

    patience = ["--replay-timeout-ms", "30000"]

    def disturb(self, fleet, victim, end, settings):
        expected = text_of(complete(fleet, 48, **settings))
        with Stream(fleet.port, PROMPT, 48, **settings) as stream:
            stream.read(12)
            end(fleet.workers[victim])
            stream.finish()
        self.assertEqual(stream.text, expected)
        self.assertTrue(stream.is_done)
        self.assertEqual(stream.finish_reason, "length")
        return max(stream.gaps)

    def test_a_killed_worker_is_replaced_by_replay(self):
        with small_fleet(gateway_flags=self.patience) as fleet:
            turns = [(1, GREEDY), (0, SEEDED), (1, SEEDED)][: 2 if SLOWNESS > 1 else 3]
            for victim, settings in turns:
                with self.subTest(victim=victim, settings=settings):
                    pause = self.disturb(fleet, victim, lambda worker: worker.kill(), settings)
                    report(f"worker {victim + 1} killed, longest pause of the stream", pause)
                    self.assertNotIn(f"worker-{victim + 1}", stages(fleet))
                    fleet.start_worker(victim)
                    wait_until(lambda: worker_state(fleet, f"worker-{victim + 1}"), "it is back, as a spare")
            self.assertGreaterEqual(fleet.fleet_state()["queue"]["totals"]["replays"], len(turns))
            self.assertEqual(fleet.fleet_state()["queue"]["totals"]["failed"], 0)

    def test_a_frozen_worker_is_replaced_and_comes_back_harmless(self):
        with small_fleet(gateway_flags=self.patience) as fleet:
            frozen = fleet.workers[0]
            pause = self.disturb(fleet, 0, lambda worker: worker.process.send_signal(signal.SIGSTOP), SEEDED)
            report("worker 1 frozen, longest pause of the stream", pause)
            self.assertEqual(stages(fleet), ["worker-2"])
            with Stream(fleet.port, PROMPT, 48) as stream:
                stream.read(4)
                frozen.process.send_signal(signal.SIGCONT)
                wait_until(lambda: worker_state(fleet, "worker-1"), "it is back, as a spare")
                stream.finish()
            self.assertEqual(stream.text, text_of(complete(fleet, 48)))
            self.assertEqual(fleet.fleet_state()["queue"]["totals"]["failed"], 0)

    def test_a_worker_told_to_stop_leaves(self):
        with small_fleet(gateway_flags=self.patience) as fleet:
            def stop(worker):
                worker.process.send_signal(signal.SIGTERM)

            pause = self.disturb(fleet, 1, stop, GREEDY)
            report("worker 2 left, longest pause of the stream", pause)
            worker = fleet.workers[1]
            self.assertEqual(worker.wait(), 0)
            self.assertIn("leaving", worker.log_text())
            self.assertEqual(stages(fleet), ["worker-1"])
            wait_until(lambda: worker_state(fleet, "worker-2") is None, "its lease ends")
            self.assertEqual(fleet.fleet_state()["state"], "ready")


class NothingToTakeOver(unittest.TestCase):
    """Neither worker can hold the whole model."""

    def test_a_lost_worker_ends_streams_with_an_error(self):
        with small_fleet(gateway_flags=REPLAY, worker_flags=["--memory-bytes", memory_for_some_layers()]) as fleet:
            expected = text_of(complete(fleet))
            with Stream(fleet.port, PROMPT, 400) as stream:
                stream.read(10)
                killed = time.monotonic()
                fleet.workers[1].kill()
                stream.finish()
                took = time.monotonic() - killed
            report("worker lost for good, stream failed after", took)
            # It is lost after a lease, and given up after the time for a replay; a busy machine has three times as long.
            self.assertLess(took, 3 * (LEASE_MS + REPLAY_MS) / 1000)
            self.assertIsNotNone(stream.error)
            self.assertIsNone(stream.finish_reason)
            self.assertEqual(set(stream.error), {"message", "type", "param", "code"})
            self.is_down(fleet)
            fleet.start_worker(1)
            fleet.wait_ready()
            self.assertEqual(text_of(complete(fleet)), expected)

    def is_down(self, fleet):
        wait_until(lambda: worker_state(fleet, "worker-2") is None, "the lease ends")
        self.assertEqual(fleet.get("/health")[0], 503)
        self.assertEqual(json.loads(fleet.get("/v1/models")[1])["data"], [])
        self.assertIn(fleet.fleet_state()["state"], ("no_chain", "loading"))
        self.assertTrue(fleet.fleet_state()["reason"])
        reply = complete(fleet)
        self.assertEqual(reply.status, 503)
        self.assertTrue(1 <= int(reply.headers["retry-after"]) <= 120)
        reply.error()


class GatewayStops(unittest.TestCase):
    """It is gone when the worker is told to leave, which then has nobody to wait for."""

    flags = ["--drain-timeout", "1"]

    def test_it_drains(self):
        with small_fleet(1, worker_flags=self.flags) as fleet:
            expected = text_of(complete(fleet, 64))
            with Stream(fleet.port, PROMPT, 64) as stream:
                stream.read(4)
                fleet.gateway.process.send_signal(signal.SIGTERM)
                wait_until(lambda: "draining" in fleet.gateway.log_text(), "it drains")
                self.is_refused(fleet)
                stream.finish()
            self.assertEqual(stream.text, expected)
            self.assertTrue(stream.is_done)
            self.assertEqual(fleet.gateway.wait(), 0)

    def is_refused(self, fleet):
        try:
            reply = complete(fleet)
        except OSError:
            return
        self.assertTrue(reply is None or reply.status == 503, reply)
        if reply:
            self.assertIn("draining", reply.error()["message"])

    def test_a_second_signal_ends_it_at_once(self):
        with small_fleet(1, worker_flags=self.flags) as fleet:
            with Stream(fleet.port, PROMPT, 1300) as stream:
                stream.read(4)
                fleet.gateway.process.send_signal(signal.SIGTERM)
                wait_until(lambda: "draining" in fleet.gateway.log_text(), "it drains")
                self.assertTrue(fleet.gateway.is_running())
                started = time.monotonic()
                fleet.gateway.process.send_signal(signal.SIGTERM)
                stream.finish()
                self.assertEqual(fleet.gateway.wait(), 0)
                report("a second signal ended it after", time.monotonic() - started)
            self.assertIsNone(stream.finish_reason)
            self.assertTrue(stream.error or stream.is_cut)


if __name__ == "__main__":
    run_tests(sys.modules[__name__], at_once=3)
