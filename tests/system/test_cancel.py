"""A client that hangs up stops its work on every worker: the pages of its sequences are free again long before its answer would have been
over, wherever the request was; and after a storm of such clients not one page or sequence is left over. How long it took is printed: some 200 ms
where nobody else uses the machine."""

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

# A worker is taken for gone after two and a half of them without a word: a sanitizer's has to get to its words first.
RENEW_MS = 50 if slowness() == 1 else 1000
LEASE_MS = 3000 * slowness()
# Clients that hang up in the storm; a thousand on demand. What TSan makes of thirty lasts longer.
STORM = int(os.environ.get("LONGHAUL_TEST_STORM", "100" if slowness() < 20 else "30"))
TOKENS = 1000
PROMPT = "Once upon a time there was a lighthouse keeper who"
LONG_PROMPT = " ".join(f"{number} green bottles hanging on the wall." for number in range(300))


def body(prompt=PROMPT, tokens=TOKENS, **more):
    return {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}


class CancelTest(unittest.TestCase):
    flags = ()
    worker_flags = ()

    @classmethod
    def setUpClass(cls):
        # With debug each hang-up has its line in the log, also of those that cost nothing.
        flags = ["--renew-ms", str(RENEW_MS), "--lease-ms", str(LEASE_MS), "--context", "4096", "--prefix-cache", "off", "--log-level", "debug", *cls.flags]
        cls.fleet = Fleet(2, gateway_flags=flags, worker_flags=["--kv-bytes", "192M", *cls.worker_flags]).__enter__()
        cls.port = cls.fleet.port
        # A worker's pages are in its first report after its chain is ready.
        cls.whole = wait_until(cls.free_pages, "every worker has said what pages it has")

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    @classmethod
    def free_pages(cls):
        """Of each worker; none while one has not said."""
        pools = [worker["kv"] for worker in cls.fleet.fleet_state()["workers"]]
        return [pool["pages_free"] for pool in pools] if all(pools) else []

    def setUp(self):
        self.drawn_before = self.drawn()

    def tearDown(self):
        # Nothing has gone wrong anywhere, so nothing says so.
        warnings = [line for program in self.fleet.programs() for line in program.log_text().splitlines() if " warn " in line]
        # By its deadline; by --slowdown; by a sanitizer.
        expected = ("request failed", "this plays a slower machine", "sandbox off (built with a sanitizer)")
        self.assertEqual([line for line in warnings if not any(text in line for text in expected)], [])
        failed = [line for program in self.fleet.programs() for line in program.log_text().splitlines() if "step failed" in line]
        self.assertEqual([worker["steps"]["failed"] for worker in self.fleet.fleet_state()["workers"]], [0, 0], failed)
        self.assertEqual(self.free_pages(), self.whole)

    def drawn(self):
        return self.fleet.fleet_state()["queue"]["totals"]["tokens"]

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
        wait_until(self.is_idle, "everything is free again")
        took = time.monotonic() - started
        drawn = self.drawn() - self.drawn_before
        print(f"    {what}: free after {took * 1000:.0f} ms and {drawn} tokens")
        self.assertLess(drawn, TOKENS / 2)
        wait_until(lambda: self.lines_499() == lines + 1, "the log says 499")
        self.next_is_served()

    def next_is_served(self):
        reply = ask(self.port, "POST", "/v1/completions", body(tokens=1))
        self.assertEqual(reply.status, 200, reply.body)
        wait_until(self.is_idle, "everything is free again")


class HangUp(CancelTest):
    flags = ["--max-sequences", "8"]

    def test_in_generation(self):
        stream = Stream(self.port, PROMPT, TOKENS).read(8)
        wait_until(self.pages_in_use, "pages are in use")
        self.hang_up(stream.connection, "generating")

    def test_deadline(self):
        """As hanging up, but that the client is told."""
        # A part of the long prompt takes as long as it may take: less than the whole needs.
        part_s = self.first_token_s(LONG_PROMPT[: len(LONG_PROMPT) // 16])
        self.assertEqual(self.status_at_deadline(LONG_PROMPT, 100, part_s), 408)
        # How long a first token takes on a busy machine is not known.
        timeout = 0.3 + 4 * self.first_token_s(PROMPT)
        while (status := self.status_at_deadline(PROMPT, TOKENS, timeout)) == 408:
            timeout *= 2
        self.assertEqual(status, 504)
        self.assertLess(self.drawn() - self.drawn_before, TOKENS)

    def status_at_deadline(self, prompt, tokens, timeout):
        started = time.monotonic()
        reply = ask(self.port, "POST", "/v1/completions", body(prompt, tokens, timeout=timeout))
        self.assertEqual(reply.error()["code"], "request_timeout")
        self.assertGreater(time.monotonic() - started, 0.9 * timeout)
        wait_until(self.is_idle, "everything is free again")
        return reply.status

    def first_token_s(self, prompt):
        started = time.monotonic()
        self.assertEqual(ask(self.port, "POST", "/v1/completions", body(prompt, tokens=1)).status, 200)
        return time.monotonic() - started

    def test_several_choices(self):
        stream = Stream(self.port, PROMPT, TOKENS, n=4, temperature=1).read(8)
        wait_until(self.pages_in_use, "pages are in use")
        self.hang_up(stream.connection, "generating four choices")

    def test_without_streaming(self):
        connection = Connection(self.port)
        connection.send(request("POST", "/v1/completions", body()))
        # The answer has taken the first of them by then.
        wait_until(lambda: self.drawn() > self.drawn_before + 8, "it generates")
        self.hang_up(connection, "not streaming")
        line = [line for line in self.fleet.gateway.log_text().splitlines() if "status=499" in line][-1]
        self.assertNotIn("tokens_out=0 ", line, "what was drawn was drawn")

    def test_a_reset_connection(self):
        stream = Stream(self.port, PROMPT, TOKENS).read(3)
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
        wait_until(self.is_idle, "everything is free again")
        took = time.monotonic() - started
        print(f"    after {STORM} that hung up: free after {took * 1000:.0f} ms")
        wait_until(lambda: self.lines_499() == lines + STORM, "the log says 499 for each of them")
        after = self.fleet.fleet_state()["queue"]["totals"]
        self.assertEqual((after["failed"], after["replays"]), (before["failed"], before["replays"]))
        self.assertEqual([worker["steps"]["active"] for worker in self.fleet.fleet_state()["workers"]], [0, 0])
        self.next_is_served()


class HangUpInPrefill(CancelTest):
    # Sleeping makes a prefill last, not work: whoever looks for it is not kept from looking.
    worker_flags = ["--slowdown", "4"]

    def test_in_prefill(self):
        for pages in (1, 5):
            drawn = self.drawn()
            connection = Connection(self.port)
            connection.send(request("POST", "/v1/completions", body(LONG_PROMPT, 100, stream=True)))
            wait_until(lambda: self.free_pages()[0] <= self.whole[0] - pages, "its prefill has begun")
            self.assertEqual(self.drawn(), drawn, "its prefill goes on")
            self.hang_up(connection, "in prefill")


class HangUpInQueue(CancelTest):
    flags = ["--max-sequences", "1"]

    def test_waiting(self):
        for streams in (True, False):
            with Stream(self.port, PROMPT, TOKENS) as first:
                first.read(4)
                second = Connection(self.port)
                second.send(request("POST", "/v1/completions", body(stream=streams)))
                wait_until(lambda: self.fleet.fleet_state()["queue"]["waiting"] == 1, "it waits")
                lines = self.lines_499()
                second.close()
                wait_until(lambda: self.fleet.fleet_state()["queue"]["waiting"] == 0, "it waits no more")
                wait_until(lambda: self.lines_499() == lines + 1, "the log says 499")
                first.read(4)
                self.assertIsNone(first.finish_reason, "it has not been its turn")
                self.hang_up(first.connection, "the one before it")


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
