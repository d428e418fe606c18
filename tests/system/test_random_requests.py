"""The real programs under random requests (random_requests.py): all routes, odd bodies and odd HTTP, clients that leave. The gateway stays, every
answer is HTTP and JSON as they should be and no 500, and an honest client beside gets the same answer all the while. With sanitizers, which say
what else is wrong, for a minute; without, for a few seconds; an hour with LONGHAUL_TEST_THOROUGH=1 and AddressSanitizer.

Of a failure the seed, the number and the bytes are told, and those that were sent beside and shortly before. To send them again:

    LONGHAUL_RANDOM_SEED=SEED [LONGHAUL_RANDOM_NUMBERS=NUMBER,NUMBER...] LONGHAUL_BUILD=build tests/python tests/system/test_random_requests.py

LONGHAUL_RANDOM_SECONDS says for how long, otherwise."""

import itertools
import os
import sys
import threading
import time
import unittest

from fleet import Fleet
from programs import IS_QUICK, PATIENCE_S, is_sanitized, run_tests, slowness
from random_clients import Clients, schemas_of
from raw_http import ask

HONEST = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}


def seconds():
    if os.environ.get("LONGHAUL_RANDOM_SECONDS"):
        return float(os.environ["LONGHAUL_RANDOM_SECONDS"])
    if os.environ.get("LONGHAUL_TEST_THOROUGH") and slowness() == 8:
        return 3600
    return 60 if is_sanitized() else 4 if IS_QUICK else 10


class Honest:
    """Asks the same again and again, beside; what differs from the first answer is a problem."""

    def __init__(self, port):
        self.port, self.is_over, self.problems, self.count = port, threading.Event(), [], 0
        self.first = self.text()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def text(self):
        reply = ask(self.port, "POST", "/v1/completions", HONEST)
        assert reply and reply.status == 200, f"{reply and (reply.status, reply.body)}"
        return reply.json()["choices"][0]["text"]

    def work(self):
        while not self.is_over.wait(0.05):
            try:
                text = self.text()
            except (AssertionError, OSError, ValueError) as error:
                text = repr(error)
            self.count += 1
            if text != self.first:
                self.problems.append(text)
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


class RandomRequests(unittest.TestCase):
    def test_the_gateway_stays_whatever_it_is_asked(self):
        seed = int(os.environ.get("LONGHAUL_RANDOM_SEED") or time.time())
        listed = os.environ.get("LONGHAUL_RANDOM_NUMBERS")
        numbers = map(int, listed.split(",")) if listed else itertools.count()
        print(f"seed {seed}, {seconds():.0f} s", flush=True)
        with Fleet(workers=1, gateway_flags=["--context", "128", "--request-timeout", str(PATIENCE_S // 2)]) as fleet:
            schemas = schemas_of(fleet.port)
            with Honest(fleet.port) as honest:
                clients = Clients(fleet.port, seed, numbers, time.monotonic() + seconds(), schemas)
                clients.run()
            print(f"{sum(clients.statuses.values())} requests, {dict(sorted(clients.statuses.items(), key=str))}, {honest.count} honest answers")
            self.assertTrue(all(program.is_running() for program in fleet.programs()), f"a program has ended\n{clients.tell()}")
            self.assertTrue(not clients.problems, clients.tell())
            self.assertFalse(honest.problems, f"the honest client's answer is other than {honest.first!r}\n{clients.tell()}")
            self.assertEqual(fleet.get("/health")[0], 200)
            self.assertNotIn("runtime error:", "".join(program.log_text() for program in fleet.programs()))


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
