"""A client that hangs up stops its work on every worker: the pages of its sequences are free again within 200 ms and the worker's next
report, wherever the request was; and after a storm of such clients not one page or sequence is left over."""

import os
import random
import socket
import struct
import sys
import threading
import time
import unittest

from fleet import Fleet
from programs import run_tests, slowness, wait_until
from raw_http import Connection, ask, request
from stream import Stream

RENEW_MS = 50
FREED_WITHIN_S = 0.2
# The looks at /fleet take their time too, on two cores that the programs need themselves; and so do sanitizer builds.
SLACK_S = 0.15 if slowness() == 1 else 1
# Clients that hang up in the storm; a thousand on demand.
STORM = int(os.environ.get("LONGHAUL_TEST_STORM", "100"))
PROMPT = "Once upon a time there was a lighthouse keeper who"
LONG_PROMPT = " ".join(f"{number} green bottles hanging on the wall." for number in range(300))


def body(prompt=PROMPT, tokens=1000, **more):
    return {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}


class CancelTest(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        flags = ["--renew-ms", str(RENEW_MS), "--context", "4096", "--prefix-cache", "off", *cls.flags]
        cls.fleet = Fleet(2, gateway_flags=flags, worker_flags=["--kv-bytes", "192M"]).__enter__()
        cls.port = cls.fleet.port
        # A worker's pages are in its first report after its chain is ready.
        cls.whole = wait_until(cls.free_pages, 30, "every worker has said what pages it has")

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    @classmethod
    def free_pages(cls):
        """Of each worker; none while one has not said."""
        pools = [worker["kv"] for worker in cls.fleet.fleet_state()["workers"]]
        return [pool["pages_free"] for pool in pools] if all(pools) else []

    def tearDown(self):
        self.assertEqual(self.free_pages(), self.whole)

    def is_idle(self):
        state = self.fleet.fleet_state()
        if not all(worker["kv"] for worker in state["workers"]):
            return False
        sequences = sum(worker["kv"]["sequences"] for worker in state["workers"])
        active = sum(worker["steps"]["active"] for worker in state["workers"])
        queue = state["queue"]
        held = sum(stage["pages_used"] + stage["pages_returning"] for stage in queue["kv"])
        return self.free_pages() == self.whole and not (
            sequences + active + held + queue["running"] + queue["waiting"] + queue["releasing"]
        )

    def pages_in_use(self):
        return all(free < whole for free, whole in zip(self.free_pages(), self.whole))

    def lines_499(self):
        return self.fleet.gateway.log_text().count("status=499")

    def hang_up(self, connection, what):
        """Closes it, and waits until all that it held is free."""
        lines = self.lines_499()
        started = time.monotonic()
        connection.close()
        wait_until(self.is_idle, 30, "everything is free again")
        took = time.monotonic() - started
        print(f"    {what}: free after {took * 1000:.0f} ms")
        self.assertLess(took, FREED_WITHIN_S + RENEW_MS / 1000 + SLACK_S)
        wait_until(lambda: self.lines_499() == lines + 1, 2, "the log says 499")
        self.next_is_served()

    def next_is_served(self):
        reply = ask(self.port, "POST", "/v1/completions", body(tokens=1), timeout=10)
        self.assertEqual(reply.status, 200, reply.body)
        wait_until(self.is_idle, 30, "everything is free again")


class HangUp(CancelTest):
    flags = ["--max-sequences", "8"]

    def test_in_generation(self):
        stream = Stream(self.port, PROMPT, 1000).read(8)
        wait_until(self.pages_in_use, 60, "pages are in use")
        self.hang_up(stream.connection, "generating")

    def test_deadline(self):
        """As hanging up, but that the client is told."""
        first_token_s = min(4, 0.6 * slowness())
        for prompt, tokens, timeout, status in ((PROMPT, 1000, first_token_s, 504), (LONG_PROMPT, 100, 0.2, 408)):
            started = time.monotonic()
            reply = ask(self.port, "POST", "/v1/completions", body(prompt, tokens, timeout=timeout), timeout=30)
            self.assertEqual((reply.status, reply.error()["code"]), (status, "request_timeout"))
            wait_until(self.is_idle, 30, "everything is free again")
            self.assertLess(time.monotonic() - started, timeout + FREED_WITHIN_S + RENEW_MS / 1000 + SLACK_S)

    def test_several_choices(self):
        stream = Stream(self.port, PROMPT, 1000, n=4, temperature=1).read(8)
        wait_until(self.pages_in_use, 60, "pages are in use")
        self.hang_up(stream.connection, "generating four choices")

    def test_in_prefill(self):
        for chunks in (1, 5):
            connection = Connection(self.port)
            connection.send(request("POST", "/v1/completions", body(LONG_PROMPT, 100, stream=True)))
            wait_until(lambda: self.free_pages()[0] <= self.whole[0] - chunks, 60, "its prefill has begun")
            self.assertGreater(self.free_pages()[0], self.whole[0] - 2000 / 64, "its prefill goes on")
            self.hang_up(connection, "in prefill")

    def test_without_streaming(self):
        connection = Connection(self.port)
        connection.send(request("POST", "/v1/completions", body()))
        wait_until(self.pages_in_use, 60, "it generates")
        self.hang_up(connection, "not streaming")

    def test_a_reset_connection(self):
        stream = Stream(self.port, PROMPT, 1000).read(3)
        stream.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.hang_up(stream.connection, "reset")

    def test_storm(self):
        """Clients that hang up at random times: before the answer, in prefill, in generation, in their queue."""
        dice = random.Random(3)
        before = self.fleet.fleet_state()["queue"]["totals"]
        lines = self.lines_499()

        def client(wait_s, start_s, prompt, streams):
            time.sleep(start_s)
            with Connection(self.port) as connection:
                connection.send(request("POST", "/v1/completions", body(prompt, 400, stream=streams)))
                time.sleep(wait_s)

        def plan():
            prompt = LONG_PROMPT[dice.randrange(8000):] if dice.random() < 0.3 else PROMPT
            return dice.random() * 0.5, dice.random() * 3 * STORM / 100, prompt, dice.random() < 0.6

        threads = [threading.Thread(target=client, args=plan()) for _ in range(STORM)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        started = time.monotonic()
        wait_until(self.is_idle, 30, "everything is free again")
        took = time.monotonic() - started
        print(f"    after {STORM} that hung up: free after {took * 1000:.0f} ms")
        self.assertLess(took, FREED_WITHIN_S + RENEW_MS / 1000 + SLACK_S)
        wait_until(lambda: self.lines_499() == lines + STORM, 2, "the log says 499 for each of them")
        after = self.fleet.fleet_state()["queue"]["totals"]
        self.assertEqual((after["failed"], after["replays"]), (before["failed"], before["replays"]))
        self.assertEqual([worker["steps"]["active"] for worker in self.fleet.fleet_state()["workers"]], [0, 0])
        self.next_is_served()


class HangUpInQueue(CancelTest):
    flags = ["--max-sequences", "1"]

    def test_waiting(self):
        for streams in (True, False):
            with Stream(self.port, PROMPT, 1000) as first:
                first.read(4)
                second = Connection(self.port)
                second.send(request("POST", "/v1/completions", body(stream=streams)))
                wait_until(lambda: self.fleet.fleet_state()["queue"]["waiting"] == 1, 2, "it waits")
                lines = self.lines_499()
                started = time.monotonic()
                second.close()
                wait_until(lambda: self.fleet.fleet_state()["queue"]["waiting"] == 0, 2, "it waits no more")
                self.assertLess(time.monotonic() - started, FREED_WITHIN_S + SLACK_S)
                wait_until(lambda: self.lines_499() == lines + 1, 2, "the log says 499")
                first.read(4)
                self.hang_up(first.connection, "the one before it")


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
