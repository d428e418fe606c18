"""What the gateway adds to a request, and what a stream costs that rests. Over the scripted engine (tests/gateway), which answers at once, so that
only the gateway is measured; beside it the least that any server could do (tests/bench/tool_http_load.c): reading the request and writing an
answer.

LONGHAUL_TEST_COST=N takes N times as many requests."""

import json
import os
import resource
import subprocess
import sys
import unittest

from programs import build_folder, is_sanitized, need_file, run_tests, wait_until
from raw_http import Connection, request
from test_http_raw import Gateway, chat_body

REQUESTS = 1000 * int(os.environ.get("LONGHAUL_TEST_COST", "1"))
STREAMS = 1000
ADDED_P50_US, ADDED_P99_US = 300, 2000
# What the gateway computes, whoever else uses the machine; they make its caches cold, so it is more than when it is alone.
CPU_US = 2 * ADDED_P50_US
STREAMS_BYTES = 100 << 20
# Others use the machine too: what it can do shows in its quiet moments, when the bound's own slowest are no slower than this.
TRIES, QUIET_P99_US = 8, 400
TEXT = "Tell me about the lighthouse. " * 20 + "@@text=Hello from the tower"


def load(path, body, port=0, requests=REQUESTS, clients=1):
    program = need_file(build_folder() / "tests" / "http_load", "http_load is not built")
    out = subprocess.run([program, "--port", str(port), "--path", path, "--requests", str(requests // clients), "--clients", str(clients),
                          "--body", json.dumps(body) if body else ""], check=True, capture_output=True, text=True, timeout=300).stdout
    return json.loads(out)


def row(name, figures):
    print(f"    {name:28}" + "".join(f"{figures[key]:>10.0f}" for key in ("p50_us", "p90_us", "p99_us", "max_us", "per_second")))


@unittest.skipIf(is_sanitized(), "no time and no memory means anything with a sanitizer")
class Cost(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, limit[1]), limit[1]))
        cls.gateway = Gateway("--keep-alive-ms", "1000", "--idle-ms", "600000")

    @classmethod
    def tearDownClass(cls):
        cls.gateway.stop()

    def cpu_us(self):
        """That the gateway has used, of all its threads."""
        with open(f"/proc/{self.gateway.program.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")

    def added(self, stream):
        """Microseconds of the median and of the 99th percentile; None where others used the machine meanwhile."""
        path, body = "/v1/chat/completions", chat_body(TEXT, stream=stream)
        before, used = load(path, body), self.cpu_us()
        ours = load(path, body, self.gateway.port)
        used = (self.cpu_us() - used) / REQUESTS
        after = load(path, body)
        row("bound", before)
        row("a stream" if stream else "an answer", ours)
        print(f"    {'of these CPU':28}{used:>10.0f}")
        self.assertLess(used, CPU_US)
        if max(before["p99_us"], after["p99_us"]) > QUIET_P99_US:
            return None
        return ours["p50_us"] - before["p50_us"], ours["p99_us"] - before["p99_us"]

    def test_added_to_a_request(self):
        print(f"\n    {'microseconds':28}" + "".join(f"{name:>10}" for name in ("p50", "p90", "p99", "max", "1/s")))
        for stream in (False, True):
            quiet = []
            for _ in range(TRIES):
                if added := self.added(stream):
                    quiet.append(added)
                    if added[0] < ADDED_P50_US and added[1] < ADDED_P99_US:
                        break
            else:
                if len(quiet) < TRIES / 2:
                    self.skipTest("the machine is busy with other things")
                self.fail(f"median and 99th percentile, added: {quiet}")

    def test_clients_side_by_side(self):
        for clients in (8, 64):
            row(f"an answer, {clients} clients", load("/v1/chat/completions", chat_body(TEXT), self.gateway.port, clients=clients))

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
        wait_until(lambda: self.gateway.counts()["running"] == 0, 30, "the streams have ended")
        self.assertLess(after, STREAMS_BYTES)

    def test_streams_that_wait_for_their_first_token(self):
        self.rest("@@first_ms=600000 text=a", b": keep-alive")

    def test_streams_that_wait_for_the_next_token(self):
        self.rest("@@interval_ms=600000 text=abc", b'"role"')


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
