"""The real programs under random requests (random_requests.py): all routes, odd bodies and odd HTTP, clients that leave. The gateway stays, every
answer is HTTP and JSON as they should be and no 500, and an honest client beside gets the same answer all the while. With sanitizers, which say
what else is wrong, for a minute; without, for a few seconds; an hour with LONGHAUL_TEST_THOROUGH=1 and AddressSanitizer.

Of a failure the seed, the number and the bytes are told, and those that were sent beside and shortly before. To send them again:

    LONGHAUL_RANDOM_SEED=SEED [LONGHAUL_RANDOM_NUMBERS=NUMBER,NUMBER...] LONGHAUL_BUILD=build tests/python tests/system/test_random_requests.py

LONGHAUL_RANDOM_SECONDS says for how long, otherwise."""

import collections
import itertools
import json
import os
import re
import sys
import threading
import time
import unittest

from fleet import Fleet
from programs import IS_QUICK, PATIENCE_S, is_sanitized, run_tests, slowness
from random_requests import RandomRequest
from raw_http import Connection, ask

CLIENTS = 6
HONEST = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
# For what is no whole request the server waits until its deadlines are over; the client leaves before.
ODD_PATIENCE_S = 1
# Overload, and a request's own time, are answers; of what the gateway does not expect there is none.
SERVER_ERRORS = {501, 503, 504, 505}


def seconds():
    if os.environ.get("LONGHAUL_RANDOM_SECONDS"):
        return float(os.environ["LONGHAUL_RANDOM_SECONDS"])
    if os.environ.get("LONGHAUL_TEST_THOROUGH") and slowness() == 8:
        return 3600
    return 60 if is_sanitized() else 4 if IS_QUICK else 10


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def strict_json(text):
    return json.loads(text, parse_constant=refuse_constant)


def check_events(body):
    """Each event of a stream is one, and its data are JSON; the last says that it is."""
    text = body.decode("utf-8")
    assert text.endswith("\n\n"), f"the stream ends within an event: {text[-80:]!r}"
    last = None
    for block in text.split("\n\n")[:-1]:
        lines = [line for line in block.split("\n") if not line.startswith((":", "event: "))]
        assert all(line.startswith("data: ") for line in lines) and len(lines) <= 1, f"no event: {block!r}"
        if lines:
            last = lines[0][len("data: "):]
            last = last if last == "[DONE]" else strict_json(last)
    assert last == "[DONE]" or "error" in last or re.match(r"message_stop|response\.(completed|incomplete|failed)|error", last.get("type", "")), f"the stream ends with {last!r}"


def check_reply(request, reply):
    """What is wrong with an answer that was to come raises an AssertionError or a ValueError."""
    assert 200 <= reply.status < 500 or reply.status in SERVER_ERRORS, f"status {reply.status}: {reply.body[:500]!r}"
    if "content-length" not in reply.headers and "transfer-encoding" not in reply.headers:
        return  # to HTTP/1.0, or without a body
    assert reply.body is not None and not reply.closed, f"the answer was cut, status {reply.status}"
    kind = reply.headers.get("content-type", "")
    encoding = reply.headers.get("content-encoding", "identity")
    if kind.startswith("text/event-stream"):
        check_events(reply.body)
    elif kind.startswith("application/json") and encoding == "identity" and reply.body:
        answer = strict_json(reply.body.decode("utf-8"))
        if reply.status >= 400 and request.is_plain:
            error = answer["error"]
            assert isinstance(error["message"], str) and isinstance(error["type"], str), f"no error object: {answer!r}"


def answer_of(request, port):
    """Sends a request and reads what comes. None: the client has left, or was left."""
    is_awaited = request.is_plain and request.ending == "whole"
    with Connection(port, PATIENCE_S if is_awaited else ODD_PATIENCE_S) as connection:
        try:
            connection.send(request.data[:request.sent])
        except (BrokenPipeError, ConnectionResetError):
            is_awaited = False  # refused before it was read whole, and the answer may be lost
        if request.ending == "cut":
            return None
        try:
            if request.ending == "left":
                connection.exactly(request.read)
                return None
            reply = connection.reply(request.method)
        except TimeoutError:
            if is_awaited:
                raise
            return None
        assert reply or not is_awaited, "no answer"
        return reply


class Clients:
    """So many at once take the next number each, until the time is over or something is wrong."""

    def __init__(self, port, seed, numbers, until, schemas):
        self.port, self.seed, self.numbers, self.until, self.schemas = port, seed, numbers, until, schemas
        self.lock, self.is_over = threading.Lock(), threading.Event()
        self.problems, self.running, self.past = [], set(), collections.deque(maxlen=CLIENTS * 2)
        self.statuses = collections.Counter()
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(CLIENTS)]

    def next(self):
        with self.lock:
            number = None if self.is_over.is_set() or time.monotonic() > self.until else next(self.numbers, None)
            if number is not None:
                self.running.add(number)
            return number

    def work(self):
        while (number := self.next()) is not None:
            request = RandomRequest(self.seed, number, self.schemas)
            problem, reply = self.take(request)
            with self.lock:
                self.statuses[reply.status if reply else request.ending] += 1
                self.running.remove(number)
                self.past.append(number)
                if problem:
                    self.problems.append((number, problem, request))
                    self.is_over.set()

    def take(self, request):
        """What is wrong, or None; and the answer."""
        reply = None
        try:
            reply = answer_of(request, self.port)
            if reply:
                check_reply(request, reply)
        except (AssertionError, OSError, ValueError, KeyError, TypeError) as error:
            return f"{type(error).__name__}: {error}", reply
        return None, reply

    def run(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()
        assert not self.running, f"a client of this test has failed with one of {sorted(self.running)}"

    def tell(self):
        """What is wrong, with what it takes to see it again."""
        lines = [f"request {number} of seed {self.seed}, {request.ending} after {request.sent} bytes: {problem}\n{request.data[:4000]!r}" for number, problem, request in self.problems]
        around = ",".join(str(number) for number in [*self.past, *self.running])
        return "\n".join([*lines, f"LONGHAUL_RANDOM_SEED={self.seed} LONGHAUL_RANDOM_NUMBERS={around} were the last ones"])


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
        with Fleet(workers=1, gateway_flags=["--context", "128", "--request-timeout", "30"]) as fleet:
            document = ask(fleet.port, "GET", "/openapi.json").json()
            schemas = {path: operations["post"]["requestBody"]["content"]["application/json"]["schema"] for path, operations in document["paths"].items() if "post" in operations}
            with Honest(fleet.port) as honest:
                clients = Clients(fleet.port, seed, numbers, time.monotonic() + seconds(), schemas)
                clients.run()
            print(f"{sum(clients.statuses.values())} requests, {dict(sorted(clients.statuses.items(), key=str))}, {honest.count} honest answers")
            self.assertTrue(all(program.is_running() for program in fleet.programs()), f"a program has ended\n{clients.tell()}")
            self.assertFalse(clients.problems, clients.tell())
            self.assertFalse(honest.problems, f"the honest client's answer is other than {honest.first!r}\n{clients.tell()}")
            self.assertEqual(fleet.get("/health")[0], 200)
            self.assertNotIn("runtime error:", "".join(program.log_text() for program in fleet.programs()))


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
