"""SIGTERM under load, again and again: what was admitted is answered whole, with the text of an undisturbed run; what was not is refused or
finds nobody; the program ends in time and leaves nothing behind. The worker stays, and the next gateway finds it.

LONGHAUL_TEST_DRAINS says how many times."""

import os
import random
import signal
import sys
import threading
import time
import unittest

from fleet import Fleet
from programs import PATIENCE_S, run_tests, wait_until
from raw_http import Connection, ask, request
from stream import Stream

DRAINS = int(os.environ.get("LONGHAUL_TEST_DRAINS", "3"))
CLIENTS = 8
TOKENS = 24
TIMES = ["--renew-ms", "100", "--lease-ms", "1200", "--plan-delay-ms", "200"]
PROMPT = "Once upon a time there was a lighthouse keeper who"


class Client(threading.Thread):
    """One request, streamed or whole: `text`, or `refused`, or else it was lost. One that comes late, when the gateway is ending, may also find
    its connection closed before an answer began: nobody took it."""

    def __init__(self, port, streams, is_late):
        super().__init__()
        self.port, self.streams, self.is_late = port, streams, is_late
        self.text, self.refused, self.trouble = None, False, None

    def run(self):
        try:
            self.ask_streaming() if self.streams else self.ask_whole()
        except ConnectionRefusedError:
            self.refused = True
        except (ConnectionResetError, BrokenPipeError) as error:
            self.refused, self.trouble = self.is_late, None if self.is_late else repr(error)
        except Exception as error:  # it is told by the test
            self.trouble = repr(error)

    def ask_streaming(self):
        with Stream(self.port, PROMPT, TOKENS, temperature=0) as stream:
            if stream.head() == 503:
                self.refused = True
                return
            stream.finish()
            self.trouble = stream.error or (None if stream.is_done and stream.finish_reason else "cut")
            self.text = stream.text

    def ask_whole(self):
        body = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
        with Connection(self.port) as connection:
            connection.send(request("POST", "/v1/completions", body))
            reply = connection.reply()
        if reply is None:
            raise ConnectionResetError("closed before an answer")
        self.refused = reply.status == 503
        if reply.status == 200:
            self.text = reply.json()["choices"][0]["text"]
        elif not self.refused:
            self.trouble = reply.body


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


class Drain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(1, gateway_flags=TIMES, worker_flags=["--kv-bytes", "64M"]).__enter__()
        cls.port = cls.fleet.port

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    def restart(self, *flags):
        self.fleet.gateway_flags = [*TIMES, *flags]
        self.fleet.start_gateway()
        self.fleet.wait_ready()

    def terminate(self):
        self.assertEqual(children_of(self.fleet.gateway.pid), [])
        self.fleet.gateway.process.send_signal(signal.SIGTERM)
        return time.monotonic()

    def test_nothing_admitted_is_lost(self):
        dice = random.Random(5)
        expected = ask(self.port, "POST", "/v1/completions", {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}).json()["choices"][0]["text"]
        # However slow the programs are: the drain's own time limit is the other test's.
        self.terminate()
        self.assertEqual(self.fleet.gateway.stop(), 0)
        self.restart("--drain-timeout", str(PATIENCE_S))
        answered = refused = 0
        for _ in range(DRAINS):
            clients = [Client(self.port, dice.random() < 0.5, number >= CLIENTS - 2) for number in range(CLIENTS)]
            for client in clients[:-2]:
                client.start()
            wait_until(lambda: self.fleet.fleet_state()["queue"]["running"] > 0, "something runs")
            time.sleep(dice.random() * 0.3)
            started = self.terminate()
            for client in clients[-2:]:
                client.start()
            for client in clients:
                client.join()
            self.assertEqual([client.trouble for client in clients if client.trouble], [])
            self.assertTrue(all(client.refused or client.text == expected for client in clients))
            self.assertEqual(self.fleet.gateway.wait(), 0)
            print(f"    {sum(not c.refused for c in clients)} answered, {sum(c.refused for c in clients)} refused, "
                  f"ended after {(time.monotonic() - started) * 1000:.0f} ms")
            answered += sum(not client.refused for client in clients)
            refused += sum(client.refused for client in clients)
            self.fleet.gateway.stop()
            self.restart("--drain-timeout", str(PATIENCE_S))
        self.assertGreaterEqual(answered, DRAINS)

    def test_the_timeout_ends_it(self):
        self.terminate()
        self.assertEqual(self.fleet.gateway.stop(), 0)
        self.restart("--drain-timeout", "1")
        with Stream(self.port, PROMPT, 1300, temperature=0) as stream:
            stream.read(2)
            started = self.terminate()
            wait_until(lambda: self.fleet.get("/readyz")[0] in (503, 0), "it is ready no more")
            stream.finish()
            self.assertEqual(self.fleet.gateway.wait(), 0)
            took = time.monotonic() - started
        self.assertGreaterEqual(took, 1)
        self.assertTrue(stream.error or stream.is_cut)
        self.assertIsNone(stream.finish_reason)
        self.fleet.gateway.stop()
        self.restart()


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
