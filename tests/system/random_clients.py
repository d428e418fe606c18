"""Clients that send random requests (random_requests.py), and look whether each answer is HTTP and JSON as they should be."""

import collections
import json
import re
import threading
import time

from programs import PATIENCE_S
from random_requests import RandomRequest
from raw_http import Connection, ask, request as request_of

CLIENTS = 6
# Nothing of a request is taken for a part of the next one.
PROBE = request_of("GET", "/livez")
# For what is no whole request the server waits until its deadlines are over; the client leaves before.
ODD_PATIENCE_S = 1
# Overload, and a request's own time, are answers; of what the gateway does not expect there is none.
SERVER_ERRORS = {501, 503, 504, 505}


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


def check_lines(body):
    """Each line of one of Ollama's streams is an object; the last says that it is."""
    text = body.decode("utf-8")
    assert text.endswith("\n"), f"the stream ends within a line: {text[-80:]!r}"
    *others, last = [strict_json(line) for line in text.splitlines()]
    assert all(other["done"] is False for other in others), "an object before the last one is none"
    assert last.get("done") is True or "error" in last, f"the stream ends with {last!r}"


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
    elif kind.startswith("application/x-ndjson"):
        check_lines(reply.body)
    elif kind.startswith("application/json") and encoding == "identity" and reply.body:
        answer = strict_json(reply.body.decode("utf-8"))
        if reply.status >= 400 and request.is_plain:
            error = answer["error"]
            if isinstance(error, str) and request.path.startswith("/api/"):
                return
            assert isinstance(error["message"], str) and isinstance(error["type"], str), f"no error object: {answer!r}"


def check_next(connection):
    """What follows a request on its connection is answered, unless the server has closed it."""
    try:
        connection.send(PROBE)
        following = connection.reply("GET")
    except (BrokenPipeError, ConnectionResetError):
        return
    assert not following or following.status == 200, f"what follows on the connection is answered with {following.status}: {following.body[:300]!r}"


def answer_of(request, port):
    """Sends a request and reads what comes, and asks for something small on the same connection. None: the client has left, or was left."""
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
        if is_awaited and reply.headers.get("connection") != "close" and not reply.closed:
            check_next(connection)
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


def schemas_of(port):
    """path -> what the server says of the bodies that it takes there."""
    document = ask(port, "GET", "/openapi.json").json()
    return {path: operations["post"]["requestBody"]["content"]["application/json"]["schema"] for path, operations in document["paths"].items() if "post" in operations}
