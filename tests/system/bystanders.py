"""Those who behave while somebody attacks: clients that stream, clients that ask briefly, and a probe; what the attack does to them is its harm."""

import dataclasses
import json
import threading
import time
import urllib.error
import urllib.request

from stream import Stream


@dataclasses.dataclass
class Harm:
    """asked, failed: requests, all kinds together. gaps_s: seconds between two tokens of a stream. probes_s: seconds that /livez took.
    memory_bytes: the most that the watched programs had resident, together."""

    asked: int = 0
    failed: int = 0
    gaps_s: list = dataclasses.field(default_factory=list)
    probes_s: list = dataclasses.field(default_factory=list)
    memory_bytes: int = 0
    problems: list = dataclasses.field(default_factory=list)

    @staticmethod
    def percentile(values, share):
        """NaN where there are no values."""
        return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")

    @property
    def gap_p99_ms(self):
        return self.percentile(self.gaps_s, 0.99) * 1e3

    @property
    def probe_p99_ms(self):
        return self.percentile(self.probes_s, 0.99) * 1e3

    def __str__(self):
        return (f"{self.failed} of {self.asked} failed, gap p99 {self.gap_p99_ms:.1f} ms, probe p99 {self.probe_p99_ms:.1f} ms, "
                f"{self.memory_bytes / 2**20:.0f} MiB")


def resident_bytes(programs):
    total = 0
    for program in programs:
        try:
            with open(f"/proc/{program.pid}/status", encoding="ascii") as lines:
                total += next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS")), 0)
        except OSError:
            pass
    return total


class Bystanders:
    """with Bystanders(fleet) as bystanders: ...attack...   harm = bystanders.harm

    `fleet` has port, url and programs(). A request has failed when its answer is not 200, is cut, or has not come within timeout_s. key: sent as
    a bearer token. padding: bytes of white space that each chat carries.
    tls: the context of an API with TLS, whose fleet.url says https."""

    PAUSE_S = 0.05

    def __init__(self, fleet, streams=1, chats=1, probes=1, tokens=32, key=None, timeout_s=10, padding=0, tls=None):
        self.fleet, self.tokens, self.timeout_s, self.key, self.padding, self.tls = fleet, tokens, timeout_s, key, padding, tls
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self.harm, self.lock, self.is_over = Harm(), threading.Lock(), threading.Event()
        kinds = [self.stream] * streams + [self.chat] * chats + [self.probe] * probes + [self.watch_memory]
        self.threads = [threading.Thread(target=self.repeat, args=(kind,), daemon=True) for kind in kinds]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def repeat(self, kind):
        while not self.is_over.is_set():
            kind()
            self.is_over.wait(self.PAUSE_S)

    def count(self, problem=None):
        with self.lock:
            self.harm.asked += 1
            self.harm.failed += problem is not None
            if problem is not None and len(self.harm.problems) < 20:
                self.harm.problems.append(str(problem))

    def stream(self):
        stream = None
        try:
            with Stream(self.fleet.port, "Once upon a time", self.tokens, self.timeout_s, self.key, self.tls) as stream:
                stream.finish()
            self.count(stream.error or (None if stream.is_done else "a stream was cut"))
        except (AssertionError, OSError, ValueError) as problem:
            self.count(problem)
        if stream:
            with self.lock:
                self.harm.gaps_s += stream.gaps

    def ask(self, path, body=None):
        """Seconds, or None."""
        begin = time.monotonic()
        try:
            data = body and json.dumps(body).encode() + b" " * self.padding
            with urllib.request.urlopen(urllib.request.Request(self.fleet.url + path, data, self.headers), timeout=self.timeout_s,
                                        context=self.tls) as answer:
                answer.read()
        except (OSError, ValueError) as problem:
            self.count(f"{path}: {problem}")
            return None
        self.count()
        return time.monotonic() - begin

    def chat(self):
        self.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0})

    def probe(self):
        seconds = self.ask("/livez")
        if seconds is not None:
            with self.lock:
                self.harm.probes_s.append(seconds)

    def watch_memory(self):
        self.harm.memory_bytes = max(self.harm.memory_bytes, resident_bytes(self.fleet.programs()))


def harm_of(fleet, seconds, attack=None, **more):
    """What Bystanders(fleet, **more) meet within so many seconds; `attack` runs beside them, and is given an event that is set when it is to end."""
    is_over = threading.Event()
    attacker = threading.Thread(target=attack, args=(is_over,), daemon=True) if attack else None
    with Bystanders(fleet, **more) as bystanders:
        if attacker:
            attacker.start()
        time.sleep(seconds)
    is_over.set()
    if attacker:
        attacker.join()
    return bystanders.harm
