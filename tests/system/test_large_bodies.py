"""What large and hostile bodies may cost others: they are read one after the other by threads of their own, so that probes and streams go on, no
client waits for all of another's, and the memory comes back.

Bounds of time are those of a busy machine; LONGHAUL_TEST_LONG=1, on a quiet one, asks for what is promised."""

import gzip
import json
import math
import os
import sys
import tempfile
import threading
import time
import unittest

from api_keys import key_line, write_private
from fleet import Fleet
from programs import is_sanitized, run_tests, wait_until
from raw_http import Connection, ask, request
from stream import Stream
from test_http_raw import GatewayTest, Gateway

LONG = bool(os.environ.get("LONGHAUL_TEST_LONG"))
PROBE_S = 0.05 if LONG else 0.5
TOKEN_S = 0.2 if LONG else 2.0
MEMORY_BACK = 1.1
# A sanitizer's build reads a tenth as fast, and takes as long for less.
BYTES = 150_000 if is_sanitized() else 600_000
LONGER_BYTES = BYTES * 3 // 2 # where the model has a token for each byte
PATH = "/v1/completions"
MIB = 1 << 20
# Two documents of 64 MiB are parsed at a time, and as much again is room for bodies on their way.
PEAK_BYTES = 256 * MIB


def completion(prompt, tokens=1):
    return {"prompt": prompt, "max_tokens": tokens, "temperature": 0}


def empty_objects(count):
    return b'{"x":[' + b"{}," * (count - 1) + b"{}]}"


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(len(values) * share) - 1)]


def send(port, body, headers=()):
    return send_at_once(port, [(body, headers)])[0]


def send_at_once(port, requests):
    """Of each all but its last byte, and these then in a row: so that no time goes by between the first and the last."""
    connections = [Connection(port) for _ in requests]
    texts = [request("POST", PATH, body, headers) for body, headers in requests]
    for connection, text in zip(connections, texts):
        connection.send(text[:-1])
    for connection, text in zip(connections, texts):
        connection.send(text[-1:])
    return connections


def is_answered(connection):
    connection.socket.setblocking(False)
    try:
        connection.pending += connection.socket.recv(1)
        return True
    except BlockingIOError:
        return False
    finally:
        connection.socket.setblocking(True)


def statuses_of(connections):
    replies = [connection.reply() for connection in connections]
    for connection in connections:
        connection.close()
    return [reply.status for reply in replies]


class Probe(threading.Thread):
    """Asks /livez again and again, each time on a connection of its own."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.seconds, self.is_over = port, [], False

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.join()

    def run(self):
        while not self.is_over:
            begun = time.monotonic()
            assert ask(self.port, "GET", "/livez", headers=[("Connection", "close")]).status == 200
            self.seconds.append(time.monotonic() - begun)


class Gzip(GatewayTest):
    """Bodies in gzip: bounded by what they expand to, read where long ones are; long answers, for who takes them so."""

    flags = ("--context", "1000000", "--body-bytes", "1000000")

    def post(self, packed):
        return statuses_of([send(self.port, packed, (("Content-Encoding", "gzip"),))])[0]

    def test_bodies(self):
        whole = json.dumps(completion("a" * 200000)).encode()
        self.assertEqual(self.post(gzip.compress(whole)), 200)
        self.assertEqual(self.post(gzip.compress(b'{"prompt":"@@text=a"}')), 200)
        bomb = gzip.compress(b" " * 500_000_000, 9)
        self.assertLess(len(bomb), 1000000)
        self.assertEqual(self.post(bomb), 413)
        for wrong in (gzip.compress(whole)[:-1], gzip.compress(whole) + b"x", whole, gzip.compress(b"[]"), gzip.compress(whole) * 2):
            self.assertEqual(self.post(wrong), 400)

    def test_long_answers(self):
        body = {"prompt": "ab" * 5000}
        plain = ask(self.port, "POST", "/tokenize", body)
        self.assertNotIn("content-encoding", plain.headers)
        packed = ask(self.port, "POST", "/tokenize", body, (("Accept-Encoding", "br, gzip;q=0.8"),))
        self.assertEqual((packed.headers["content-encoding"], packed.headers["vary"]), ("gzip", "Accept-Encoding"))
        self.assertLess(len(packed.body), len(plain.body) / 4)
        self.assertEqual(gzip.decompress(packed.body), plain.body)


class OneServerThread(GatewayTest):
    """Whoever works for long on the only thread of the server would hold up everybody: so this is about order, and no clock is read."""

    flags = ("--threads", "1", "--context", "1000000")

    def send_large(self):
        return send_at_once(self.port, [(completion("a" * LONGER_BYTES), ())] * 12)

    def test_a_probe_does_not_wait_for_what_is_read(self):
        large = self.send_large()
        for _ in range(8): # each would wait for one of them at least
            self.assertEqual(ask(self.port, "GET", "/livez").status, 200)
        self.assertLess(sum(map(is_answered, large)), 8)
        self.assertEqual(statuses_of(large), [200] * 12)

    def test_a_small_request_does_not_wait_either(self):
        large = self.send_large()
        self.assertEqual(self.chat("@@text=quick").json()["choices"][0]["message"]["content"], "quick")
        self.assertFalse(is_answered(large[-1]))
        self.assertEqual(statuses_of(large), [200] * 12)

    def test_who_hangs_up_gives_up_his_turn(self):
        before = self.gateway.counts()["submitted"]
        for connection in self.send_large():
            connection.close()
        self.assertEqual(statuses_of([send(self.port, completion("a" * BYTES))]), [200])
        self.assertLess(self.gateway.counts()["submitted"] - before, 9)

    def test_what_is_wrong_with_a_large_body_is_told(self):
        filler = "a" * 20000
        for body, param, word in [(b'{"prompt":"' + b"a" * 20000, None, "not valid JSON"), ({"prompt": 5, "user": filler}, "prompt", "string"),
                                  ({"prompt": filler, "n": 99}, "n", "integer from 1"), (empty_objects(500_000), None, "64 MiB")]:
            reply = self.ask("POST", PATH, body)
            self.assertEqual(reply.status, 400)
            self.assertEqual(reply.error()["param"], param)
            self.assertIn(word, reply.error()["message"])

    def test_a_large_request_is_answered_like_a_small_one(self):
        for stream in (False, True):
            small, large = (self.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": " " * spaces + "@@text=a stop b"}],
                                                                      "stop": [" stop", "x" * 4000], "stream": stream}) for spaces in (1, 20000))
            self.assertEqual((small.status, large.status), (200, 200))
            texts = [[json.loads(event)["choices"][0]["delta"].get("content") for event in reply.body.decode().split("data: ")[1:]
                      if not event.startswith("[DONE]")] if stream else reply.json()["choices"][0]["message"]["content"] for reply in (small, large)]
            self.assertEqual(*texts)
            self.assertEqual(texts[0] if not stream else "".join(filter(None, texts[0])), "a")
        echo = self.ask("POST", PATH, {**completion("b" * 20000 + "@@text=c", 5), "echo": True}).json()["choices"][0]["text"]
        self.assertEqual(echo, "b" * 20000 + "@@text=cc")


class SeveralClients(unittest.TestCase):
    def test_one_client_does_not_wait_for_all_of_another(self):
        with tempfile.TemporaryDirectory(prefix="longhaul-clients-") as folder:
            keys = write_private(os.path.join(folder, "keys"), key_line("many", "key-many") + key_line("few", "key-few"))
            gateway = Gateway("--threads", "1", "--context", "1000000", "--api-key-file", keys)
            headers = {name: [("Authorization", f"Bearer key-{name}")] for name in ("many", "few")}
            try:
                *many, few = send_at_once(gateway.port, [(completion("a" * LONGER_BYTES), headers[name]) for name in ["many"] * 16 + ["few"]])
                self.assertEqual(statuses_of([few]), [200])
                self.assertFalse(is_answered(many[-1]))
                self.assertEqual(statuses_of(many), [200] * 16)
            finally:
                gateway.stop()


class RealGateway(unittest.TestCase):
    """With a stream of tokens beside."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(1).__enter__()
        cls.port = cls.fleet.port
        cls.beside([json.dumps(completion("a" * 100000)).encode()] * 4) # what is allocated once is there

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    @classmethod
    def memory(cls, name="VmRSS"):
        with open(f"/proc/{cls.fleet.gateway.pid}/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

    @classmethod
    def forget_peak(cls):
        with open(f"/proc/{cls.fleet.gateway.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")

    @classmethod
    def beside(cls, bodies):
        """Sends them all at once, probes and a stream beside; their statuses, the seconds of the probes, and those between two tokens."""
        with Stream(cls.port, "Once upon a time", 4000) as stream, Probe(cls.port) as probe:
            stream.read(5)
            stream.gaps.clear()
            senders = [threading.Thread(target=lambda body=body: statuses.extend(statuses_of([send(cls.port, body)]))) for body in bodies]
            statuses = []
            for sender in senders:
                sender.start()
            while any(sender.is_alive() for sender in senders):
                stream.step()
            return statuses, probe.seconds, stream.gaps

    def attack(self, name, bodies, wanted):
        before = self.memory()
        self.forget_peak()
        statuses, probes, gaps = self.beside(bodies)
        peak = self.memory("VmHWM")
        self.assertEqual(set(statuses), wanted)
        wait_until(lambda: self.memory() < MEMORY_BACK * before, f"the memory comes back to {before >> 20} MiB")
        print(f"    {len(bodies)} {name}: {len(probes)} probes, p99 {percentile(probes, 0.99) * 1000:.1f} ms; {len(gaps)} tokens, the longest "
              f"gap {max(gaps) * 1000:.0f} ms; memory {before >> 20} MiB before, {peak >> 20} at most, {self.memory() >> 20} behind")
        self.assertLess(peak - before, PEAK_BYTES)
        self.assertLess(percentile(probes, 0.99), PROBE_S)
        self.assertLess(max(gaps), TOKEN_S)

    def test_millions_of_values(self):
        self.attack("bodies of 1.5 MB of {}", [empty_objects(500_000)] * 8, {400})
        self.attack("bodies of {} that are just taken", [empty_objects(200_000)] * 8, {400})
        self.attack("lists of numbers", [json.dumps(completion([1] * 190_000)).encode()] * 12, {400})

    def test_bodies_that_never_end(self):
        before = self.memory()
        for size in (900_000, 200_000, 60_000):
            head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size + 1}\r\n\r\n"
            connections = [Connection(self.port) for _ in range(min(200, 100_000_000 // size))]
            for connection in connections:
                connection.send(head.encode() + b"x" * size)
            wait_until(lambda: self.memory() > before + len(connections) * size // 2, "the bodies are there")
            for connection in connections:
                connection.close()
            wait_until(lambda: self.memory() < MEMORY_BACK * before, f"the memory comes back to {before >> 20} MiB")

    def test_long_prompts(self):
        for name, text in [("prompts of 600 KB", "the quick brown fox, isn't it? " * 20000), ("of one letter", "a" * BYTES),
                           ("of spaces", " " * BYTES), ("of emoji", "\N{GRINNING FACE}" * (BYTES // 4))]:
            self.attack(name, [json.dumps(completion(text[:BYTES]), ensure_ascii=False).encode()] * 12, {400})


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=["OneServerThread", "SeveralClients"])
