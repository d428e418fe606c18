"""What the gateway computes for a request, and what a stream costs that rests. Over the scripted engine (tests/gateway), which answers at once,
so that only the gateway is measured; beside it, in turns, a server on the same library that does nothing but answer
(tests/bench/tool_http_peer.c). Processor time is compared, not microseconds: it is the same on a slow machine and on a busy one, but for cold
caches, which are cold for both. The times that clients see are printed for whoever reads them on a quiet machine.

LONGHAUL_TEST_COST=N takes N times as many requests."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

from programs import Program, build_folder, need_file, run_tests, wait_until
from raw_http import Connection, request
from test_http_raw import Gateway, chat_body

REQUESTS = 1000 * int(os.environ.get("LONGHAUL_TEST_COST", "1"))
STREAMS = 1000
# Times what the peer computes for a request. Found, by processor: 8 to 12 for an answer, 17 to 30 for a stream; beside other programs, which cost
# the gateway more of its caches than so small a peer, up to 1.7 times that.
TIMES_PEER = {"an answer": 30, "a stream": 75}
# Times what an answer costs to one client, with others beside it: what grows with their number would show as dozens.
TIMES_ALONE = 3
TURNS = 3
STREAMS_BYTES = 100 << 20
PATH = "/v1/chat/completions"
TEXT = "Tell me about the lighthouse. " * 20 + "@@text=Hello from the tower"


class Peer(Program):
    def __init__(self, folder):
        super().__init__("peer", [need_file(build_folder() / "tests" / "http_peer", "http_peer is not built")], folder, stdin=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())


def load(port, body, requests=REQUESTS, clients=1):
    program = need_file(build_folder() / "tests" / "http_load", "http_load is not built")
    out = subprocess.run([program, "--port", str(port), "--path", PATH, "--requests", str(requests // clients), "--clients", str(clients),
                          "--body", json.dumps(body)], check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def cpu_us(pid):
    """That a program has used, of all its threads."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1000


class Cost(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, limit[1]), limit[1]))
        cls.gateway = Gateway("--keep-alive-ms", "1000", "--idle-ms", "600000")
        cls.folder = tempfile.TemporaryDirectory(prefix="longhaul-peer-")
        cls.peer = Peer(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.gateway.stop()
        cls.peer.stop()
        cls.folder.cleanup()

    def cost(self, name, pid, port, stream=False, clients=1):
        """Microseconds of processor for a request."""
        before = cpu_us(pid)
        figures = load(port, chat_body(TEXT, stream=stream), clients=clients)
        cost = (cpu_us(pid) - before) / (REQUESTS // clients * clients)
        columns = [cost, *(figures[key] for key in ("p50_us", "p90_us", "p99_us", "max_us", "per_second"))]
        print(f"    {name:28}" + "".join(f"{value:>10.0f}" for value in columns))
        return cost

    def least(self, *stages, turns=TURNS):
        """Of each, taken in turns, the least: what comes on top is other programs'."""
        return [min(costs) for costs in zip(*([self.cost(*stage) for stage in stages] for _ in range(turns)))]

    def test_cost_beside_the_least_possible(self):
        print(f"\n    {'microseconds':28}" + "".join(f"{name:>10}" for name in ("CPU", "p50", "p90", "p99", "max", "1/s")))
        ours = self.gateway.program.pid, self.gateway.port
        peers, answers, streams = self.least(("the peer", self.peer.pid, self.peer.port), ("an answer", *ours), ("a stream", *ours, True))
        for name, cost in (("an answer", answers), ("a stream", streams)):
            print(f"    {name} costs {cost / peers:.1f} times as much as the peer's")
            self.assertLess(cost, TIMES_PEER[name] * peers)

    def test_clients_side_by_side(self):
        ours = self.gateway.program.pid, self.gateway.port, False
        alone, *beside = self.least(*((f"an answer, {clients} clients", *ours, clients) for clients in (1, 8, 64)))
        for cost in beside:
            self.assertLess(cost, TIMES_ALONE * alone)

    def resident_bytes(self):
        with open(f"/proc/{self.gateway.program.pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def rest(self, gateway_text, first_event):
        before = self.resident_bytes()
        connections = []
        for _ in range(STREAMS):
            connections.append(Connection(self.gateway.port, 60))
            connections[-1].send(request("POST", "/v1/chat/completions", chat_body(gateway_text, stream=True)))
        for connection in connections:
            self.assertEqual(connection.head()[0], 200)
            self.assertIn(first_event, connection.chunk())
        after = self.resident_bytes()
        print(f"\n    {STREAMS} streams at rest: {after / (1 << 20):.1f} MiB, without them {before / (1 << 20):.1f}")
        for connection in connections:
            connection.close()
        wait_until(lambda: self.gateway.counts()["running"] == 0, "the streams have ended")
        self.assertLess(after, STREAMS_BYTES)

    def test_streams_that_wait_for_their_first_token(self):
        self.rest("@@first_ms=600000 text=a", b": keep-alive")

    def test_streams_that_wait_for_the_next_token(self):
        self.rest("@@interval_ms=600000 text=abc", b'"role"')


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
