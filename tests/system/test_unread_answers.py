"""Answers that nobody takes, or takes by drops: what they hold is bounded, in memory and in places, and another client is served beside them.
Over the scripted engine (tests/gateway)."""

import contextlib
import select
import socket
import sys
import time
import unittest

from programs import PATIENCE_S, is_sanitized, run_tests, wait_until
from raw_http import Connection, ask, elapsed, request
from test_http_raw import Gateway, completion_body

ROOM = 16 << 20
IDS = 150_000
# Of another address than the attackers'.
FRIEND = "127.0.0.2"
# 10 MB, which are more than the kernel takes for a client.
LONG = request("POST", "/v1/completions", completion_body("@@text=" + "x" * 200, stream=True, max_tokens=3600, ignore_eos=True, logprobs=5, n=8))


def detokenize(ids=IDS):
    return request("POST", "/detokenize", {"tokens": [260] * ids})


def resident_bytes(gateway):
    with open(f"/proc/{gateway.program.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


def connect(port, data, source="127.0.0.1"):
    """Takes nothing: the least buffer that there is."""
    made = socket.socket()
    made.bind((source, 0))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    made.connect(("127.0.0.1", port))
    made.sendall(data)
    return made


def is_cut(connection):
    """Whether the other side has closed it: what has come meanwhile lies before that."""
    watch = select.poll()
    watch.register(connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    return bool(watch.poll(0))


def has_answer(connection):
    return bool(select.select([connection], [], [], 0)[0])


def drain(connection):
    """All that is there: of an answer that was cut a part."""
    taken = bytearray()
    connection.settimeout(PATIENCE_S)
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(1 << 20):
            taken += data
            if b'"}' in data[-2:]: # the end of a whole one
                break
    return bytes(taken)


class UnreadAnswers(unittest.TestCase):
    def open(self, *flags):
        gateway = Gateway(*flags)
        self.addCleanup(gateway.stop)
        return gateway

    def test_memory_is_bounded(self):
        gateway = self.open("--answers-bytes", str(ROOM))
        answer = len(ask(gateway.port, "POST", "/detokenize", {"tokens": [260] * IDS}).body)
        self.assertGreater(answer, 256 << 10)
        count = 5 * ROOM // answer
        before, most = resident_bytes(gateway), 0
        with contextlib.ExitStack() as stack:
            attackers = []
            for _ in range(count):
                attackers.append(stack.enter_context(connect(gateway.port, detokenize())))
                wait_until(lambda: has_answer(attackers[-1]), "it is answered")
                most = max(most, resident_bytes(gateway))
            # Somebody else's answer finds room: those that stand still go.
            with Connection(gateway.port, source=FRIEND) as friend:
                for _ in range(5):
                    friend.send(detokenize())
                    self.assertEqual(friend.reply().status, 200)
            most = max(most, resident_bytes(gateway))
            whole = sum(drain(attacker).endswith(b"}") for attacker in attackers)
        print(f"    {count} unread answers of {answer >> 10} KiB: {whole} were kept, {(most - before) >> 20} MiB more")
        self.assertLessEqual(whole * answer, ROOM)
        # Beside them the readers hold the ids of some requests, and the texts.
        if not is_sanitized():
            self.assertLess(most - before, 4 * ROOM)

    def test_streams_that_nobody_takes_keep_no_places(self):
        """Those of two addresses have as many places as make the server refuse long answers, if they counted as being answered."""
        gateway = self.open("--connections", "64", "--stall-ms", "120000")
        with contextlib.ExitStack() as stack:
            for i in range(52):
                stack.enter_context(connect(gateway.port, LONG, ("127.0.0.1", "127.0.0.3")[i % 2]))
            wait_until(lambda: gateway.counts()["submitted"] >= 40, "the streams run")
            wait_until(lambda: gateway.counts()["running"] == 0, "all is generated, and not taken")
            begin = time.monotonic()
            for _ in range(10):
                with Connection(gateway.port, source=FRIEND) as friend:
                    friend.send(request("POST", "/v1/completions", completion_body("@@text=ok", stream=True)))
                    reply = friend.reply()
                    self.assertEqual(reply.status, 200, reply.body)
                    self.assertIn(b"[DONE]", reply.body)
            self.assertLess(elapsed(begin), PATIENCE_S / 2)

    def test_what_streams_hold_is_bounded(self):
        """What was generated for a client who takes nothing counts as an answer that is not read."""
        gateway = self.open("--answers-bytes", str(4 << 20), "--stall-ms", "120000")
        with contextlib.ExitStack() as stack:
            attackers = [stack.enter_context(connect(gateway.port, LONG)) for _ in range(8)]
            # Each takes some, so that the server looks at what is left; all together have more than the room.
            def drink():
                for attacker in attackers:
                    with contextlib.suppress(OSError):
                        attacker.recv(4096, socket.MSG_DONTWAIT)
                return sum(map(is_cut, attackers)) >= 4
            wait_until(drink, "streams that hold too much are cut")

    def test_who_takes_a_byte_a_second_is_cut(self):
        gateway = self.open("--stall-ms", "2000")
        with connect(gateway.port, LONG) as slow:
            wait_until(lambda: has_answer(slow), "the stream begins")
            for _ in range(6):
                slow.recv(1)
                time.sleep(1)
            stream = drain(slow)
        self.assertFalse(b"[DONE]" in stream, f"{len(stream)} bytes have come, to the end")

    def test_requests_in_a_row_wait_for_their_turn(self):
        """Pipelined requests whose answers nobody reads: one answer at a time, and what waits behind it is bounded by the connection's memory."""
        gateway = self.open()
        before = resident_bytes(gateway)
        with contextlib.ExitStack() as stack:
            attackers = [stack.enter_context(connect(gateway.port, b"")) for _ in range(50)]
            line = request("GET", "/openapi.json") * 1000
            for attacker in attackers:
                attacker.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        attacker.send(line)
            time.sleep(1)
            more = resident_bytes(gateway) - before
        print(f"    50 connections with a thousand requests each: {more >> 20} MiB more")
        if not is_sanitized():
            self.assertLess(more, 50 << 20)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
