"""llama.cpp's server, with half of the layers on one RPC server over the same link where the fleet has two stages, one thread each: the peer to beat."""

import dataclasses
import http.client
import json
import math
import subprocess
import time

import sites as bench_sites
import streams as bench_streams
from cells import median

PROMPT = 506
DECODE_TOKENS = 12
SERVER_PORT, RPC_PORT = 8090, 50052

# (rate, round trip): how many times shorter the time to the first token and the time per token are to be.
FIRST_WANTED = {10: 8, 30: 5, 100: 5}
TOKEN_WANTED = {(10, 1): 10, (10, 20): 10, (10, 80): 10, (100, 1): 2.5, (100, 20): 1.6, (100, 80): 1.25}


class LlamaPeer:
    """Beside a BenchFleet of one or two stages, on its sites and cores; whoever is not asked sleeps. context: of all slots together."""

    def __init__(self, fleet, server, rpc_server, layers, slots=1, context=2048):
        self.fleet, self.slots = fleet, slots
        home = fleet.sites.address(0)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": fleet._log("peer")}
        self.rpc, split = None, []
        if fleet.stages == 2:
            away = fleet.sites.address(1)
            self.rpc = fleet.sites.start(1, [rpc_server, "--host", away, "--port", RPC_PORT, "--threads", 1], fleet.cores(1), **quiet)
            split = ["--rpc", f"{away}:{RPC_PORT}", "--n-gpu-layers", layers // 2]
            time.sleep(1)
        self.process = fleet.sites.start(
            0,
            [server, "--model", fleet.model, "--host", home, "--port", SERVER_PORT, *split, "--threads", 1, "--threads-batch", 1, "--ctx-size", context,
             "--parallel", slots],
            fleet.cores(0), **quiet,
        )
        self._wait()

    def close(self):
        for process in filter(None, (self.process, self.rpc)):
            bench_sites.end_process(process)

    def _body(self, prompt, tokens):
        return {"prompt": prompt, "n_predict": tokens, "cache_prompt": False, "temperature": 0, "ignore_eos": True, "stream": True}

    def ask_many(self, prompts, tokens, spread_s):
        """Streams that have ended."""
        address = (self.fleet.sites.address(0), SERVER_PORT)
        return bench_streams.run(lambda: self.fleet.sites.socket(0), address, "/completion", [self._body(p, tokens) for p in prompts], spread_s)

    def _wait(self, timeout=300):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"llama-server has ended with status {self.process.returncode}")
            try:
                connection = self._connect(5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.5)
        raise TimeoutError("llama-server does not get ready")

    def _connect(self, timeout):
        connection = http.client.HTTPConnection(self.fleet.sites.address(0), SERVER_PORT, timeout=timeout)
        connection.sock = self.fleet.sites.socket(0)
        connection.sock.settimeout(timeout)
        connection.sock.connect((self.fleet.sites.address(0), SERVER_PORT))
        return connection

    def ask(self, prompt, tokens):
        """(seconds to the first token, seconds for each after it)."""
        body = self._body(prompt, tokens)
        connection = self._connect(600)
        times = []
        try:
            begin = time.perf_counter()
            connection.request("POST", "/completion", json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise RuntimeError(f"llama-server: status {answer.status}: {answer.read()[:300]}")
            for line in answer:
                if line.startswith(b"data: ") and (json.loads(line[6:]).get("tokens") or not times):
                    times.append(time.perf_counter())
        finally:
            connection.close()
        return times[0] - begin, (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else math.nan


@dataclasses.dataclass
class Beside:
    """Both in one cell."""

    rate: float
    round_trip: float
    ours: tuple
    theirs: tuple

    @property
    def first(self):
        return self.theirs[0] / self.ours[0]

    @property
    def token(self):
        return self.theirs[1] / self.ours[1]


def median_pair(samples):
    """Of the first members, and of the second ones that are there."""
    return tuple(map(median, zip(*samples)))


def measure(fleet, peer, rate, round_trip, samples):
    fleet.set_links(rate, round_trip)
    fleet.wait_estimates(rate, round_trip)
    peer.ask(fleet.prompt(64), 2)
    ours, theirs = [], []
    for _ in range(samples):
        answer = fleet.ask(fleet.prompt(PROMPT), DECODE_TOKENS)
        ours.append((answer.first_s, answer.token_s))
        theirs.append(peer.ask(fleet.prompt(PROMPT), DECODE_TOKENS))
    return Beside(rate, round_trip, median_pair(ours), median_pair(theirs))


HEAD = f"Mbit/s  rtt | first token of {PROMPT}: ours  llama.cpp  times shorter | per token: ours  llama.cpp  times shorter"


def row(b):
    return (
        f"{b.rate:6g} {b.round_trip:4g} | {b.ours[0]:24.3f}s {b.theirs[0]:9.3f}s {b.first:14.2f} |"
        f" {b.ours[1] * 1000:14.1f}ms {b.theirs[1] * 1000:8.1f}ms {b.token:14.2f}"
    )


def claims(all_beside):
    for b in all_beside:
        where = f"{b.rate:g} Mbit/s, {b.round_trip:g} ms"
        if b.rate in FIRST_WANTED:
            wanted = FIRST_WANTED[b.rate]
            yield f"first token at least {wanted} times sooner than llama.cpp's", b.first >= wanted, f"{where}: {b.first:.2f} times"
        wanted = TOKEN_WANTED.get((b.rate, b.round_trip))
        if wanted:
            most = b.theirs[1] * 1000 / b.round_trip
            yield (f"tokens at least {wanted:g} times faster than llama.cpp's", b.token >= wanted,
                   f"{where}: {b.token:.2f} times (a token goes once around the ring: no arithmetic at all would be {most:.2f} times)")
