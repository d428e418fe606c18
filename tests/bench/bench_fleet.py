"""A gateway and its workers, each at a site of its own, joined by emulated links; and requests whose times are taken."""

import dataclasses
import http.client
import itertools
import json
import math
import os
import pathlib
import random
import tempfile
import time

import sites as bench_sites

API_PORT, FLEET_PORT, WORKER_PORT = 8080, 7100, 7101
# All ports are on addresses of the emulated sites. Not as a flag: an older program, to compare with, knows none of that name.
os.environ["LONGHAUL_INSECURE_NO_KEYS"] = "1"
# Of a core, that the workers' arithmetic may use: the rest is the gateway's, the links', the clients' and their own sending and receiving. With
# less, they are less often in each other's way (the caches, the memory); and all takes longer.
CORE_SHARE = 0.4
# Token ids that are ordinary words in any vocabulary of some size.
TOKENS = range(1000, 30000)


def slowdowns(given, stages, core_share=CORE_SHARE):
    """Of each worker, as texts: what --slowdown says, in turns; without it 1, or what fits all of them onto the cores."""
    if given:
        return list(itertools.islice(itertools.cycle(given.split(":")), stages))
    cores = len(os.sched_getaffinity(0))
    factor = math.ceil(stages / (core_share * cores) * 2) / 2 if stages >= cores else 1
    return [f"{factor:g}"] * stages


@dataclasses.dataclass
class Answer:
    first_s: float  # from the request to the first token; NaN: not known
    token_s: float  # each one after it, on average; NaN: there was none
    tokens: list  # as texts
    digests: list  # of the logits, where the gateway was told to give them
    timing: dict  # what the gateway says of it, where it does


class BenchFleet:
    """with BenchFleet(build, model, stages=3, ...) as fleet: ...   One thread and one core for each worker, h2c between them."""

    def __init__(self, build, model, stages, slowdowns, wire="f16", congestion_control="cubic", gateway_flags=(), worker_flags=(), links=None, has_file=True):
        """has_file: the workers read the model from its file; else they fetch what they lack from the gateway."""
        self.build, self.model, self.stages = pathlib.Path(build), str(model), stages
        self.slowdowns = list(slowdowns)  # of each worker, as texts
        self.wire = wire
        self.has_file = has_file
        self.gateway_flags, self.worker_flags = list(gateway_flags), list(worker_flags)
        # A line has two ends, also where nobody is at the other one.
        self.sites = bench_sites.Sites(max(2, stages), self.build / "longhaul-link", congestion_control, emulator_cores=self.spare_cores())
        self.links = links  # (rate, round trip) from the start
        self.random = random.Random(1)
        self.workers = []

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="longhaul-bench-")
        self.sites.__enter__()
        try:
            if self.links:
                self.set_links(*self.links)
            self._start_gateway()
            self.workers = [self._start_worker(i) for i in range(self.stages)]
            self.wait_ready()
        except BaseException:
            self.print_logs()
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.sites.close()
        self.folder.cleanup()

    def cores(self, stage):
        """One for each worker, in turns where there are fewer."""
        mine = sorted(os.sched_getaffinity(0))
        return [mine[(len(mine) - 1 - stage) % len(mine)]]

    def spare_cores(self):
        """For the gateway and the links: where no worker is, or else the last worker's, which waits most, if that leaves room; None: any."""
        workers = {core for stage in range(self.stages) for core in self.cores(stage)}
        leaves_room = all(float(factor.partition(",")[0]) > 1 for factor in self.slowdowns)
        return sorted(os.sched_getaffinity(0) - workers) or (self.cores(self.stages - 1) if leaves_room else None)

    def _log(self, name):
        return open(os.path.join(self.folder.name, f"{name}.log"), "ab")

    def _start_gateway(self):
        home = self.sites.address(0)
        names = ",".join(f"site-{i + 1}" for i in range(self.stages))
        with self._log("gateway") as log:
            self.gateway = self.sites.start(
                0,
                [self.build / "longhaul-gateway", "--model", self.model, "--listen", f"{home}:{API_PORT}", "--fleet-listen", f"{home}:{FLEET_PORT}",
                 "--insecure-plaintext", "--workers", self.stages, "--sites", names, "--site", "site-1", "--wire", self.wire, "--prefix-cache", "off", *self.gateway_flags],
                self.spare_cores(), stdout=log, stderr=log,
            )

    def _start_worker(self, stage):
        with self._log(f"worker-{stage + 1}") as log:
            return self.sites.start(
                stage,
                [self.build / "longhaul-worker", "--name", f"worker-{stage + 1}", "--site", f"site-{stage + 1}", "--gateway",
                 f"http://{self.sites.address(0)}:{FLEET_PORT}", "--listen", f"{self.sites.address(stage)}:{WORKER_PORT}", "--insecure-plaintext",
                 "--threads", 1, "--slowdown", self.slowdowns[stage], *(["--model", self.model] if self.has_file else []), "--cache-dir", os.path.join(self.folder.name, f"cache-{stage}"),
                 *self.worker_flags],
                self.cores(stage), stdout=log, stderr=log,
            )

    def print_logs(self):
        for path in sorted(pathlib.Path(self.folder.name).glob("*.log")):
            print(f"---- {path.name}\n{path.read_text(errors='replace')[-3000:]}", flush=True)

    # ---- Requests

    def _connect(self, timeout):
        connection = http.client.HTTPConnection(self.sites.address(0), API_PORT, timeout=timeout)
        connection.sock = self.sites.socket(0)
        connection.sock.settimeout(timeout)
        connection.sock.connect((self.sites.address(0), API_PORT))
        return connection

    def get(self, path, timeout=5):
        try:
            connection = self._connect(timeout)
        except OSError:
            return 0, ""
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def state(self):
        return json.loads(self.get("/fleet")[1])

    def chain(self):
        return self.state()["chains"][0]

    def plan(self, rows):
        """How a prompt of so many tokens would be cut now, as the gateway tells it; {} where it does not."""
        plans = (self.chain().get("overlap") or {}).get("plans", [])
        return next((p for p in plans if p["prompt"] == rows), {})

    def wait_ready(self, timeout=180):
        deadline = time.monotonic() + timeout
        while self.get("/health")[0] != 200:
            for process in (self.gateway, *self.workers):
                if process.poll() is not None:
                    raise RuntimeError(f"a program has ended with status {process.returncode}")
            if time.monotonic() > deadline:
                raise TimeoutError("the fleet does not get ready")
            time.sleep(0.1)

    def prompt(self, rows):
        """One that nobody has asked before."""
        return [self.random.choice(TOKENS) for _ in range(rows)]

    def ask(self, prompt, tokens=1, overlap=None, timeout=600, on_event=None, on_comment=None):
        """A streamed completion. `overlap` is for this request alone. on_event(tokens so far) and on_comment(text) are called as they come."""
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True, "logprobs": 0,
                "longhaul": {"timing": True, **({"overlap": overlap} if overlap else {})}}
        text = json.dumps(body)
        connection = self._connect(timeout)
        try:
            begin = time.perf_counter()
            connection.request("POST", "/v1/completions", text, {"content-type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise RuntimeError(f"status {answer.status}: {answer.read()[:300]}")
            return self._read_events(answer, begin, tokens, on_event, on_comment)
        finally:
            connection.close()

    @staticmethod
    def _read_events(answer, begin, wanted, on_event, on_comment):
        result = Answer(math.nan, math.nan, [], [], {})
        first = last = None
        for line in answer:
            if line.startswith(b": ") and on_comment:
                on_comment(line[2:].decode().strip())
            if not line.startswith(b"data: {"):
                continue
            now, event = time.perf_counter(), json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(str(event["error"]))
            result.timing = event.get("longhaul") or result.timing
            for choice in event["choices"]:
                new = (choice.get("logprobs") or {}).get("tokens") or []
                result.digests += choice.get("logits_digests") or []
                if not new:
                    continue
                # A token that is half a character comes with the next one: its time is not known then.
                if first is None:
                    first = (now, len(new))
                    result.first_s = now - begin if len(new) == 1 else math.nan
                result.tokens += new
                last = now
                if on_event:
                    on_event(len(result.tokens))
        if len(result.tokens) != wanted:
            raise RuntimeError(f"{len(result.tokens)} of {wanted} tokens came")
        if wanted > first[1]:
            result.token_s = (last - first[0]) / (wanted - first[1])
        return result

    # ---- Links

    def set_links(self, rate, round_trip, **more):
        self.sites.set(rate=rate, delay=round_trip / 2, queue=50, **more)

    def wait_estimates(self, rate, round_trip, timeout=25):
        """Until what the fleet has measured of its hops between workers is near what they are; false where it does not come so far."""

        def is_near(link):
            is_rate_near = abs((link.get("bytes_per_us") or 0) * 8 / rate - 1) < 0.25
            return link["connected"] and is_rate_near and abs(link["round_trip_us"] / 1000 - round_trip) < 0.1 * round_trip + 2

        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if all(is_near(l) for l in self.chain()["links"] if "gateway" not in (l["from"], l["to"])):
                return True
            self.ask(self.prompt(128))
        return False
