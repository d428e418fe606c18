"""Bad weather: what happens to requests, plans and memory when a link or a worker gets worse while they run."""

import dataclasses
import os
import signal
import threading
import time

STAGES, RATE, ROUND_TRIP = 3, 10, 20
PROMPT, TOKENS = 512, 8
# Requests that are under way at once when it begins.
AT_ONCE = 3
# Shards that have come and those that wait to leave have 64 MiB each; the rest is the C library's.
MEMORY_MIB = 192
SLOWER = 3


@dataclasses.dataclass
class Weather:
    name: str
    begin: object  # called with the fleet
    end: object
    adapts: bool  # it lasts, so the cost model is expected to follow


def set_links(**settings):
    return lambda fleet: fleet.sites.set(**settings)


def fair(fleet):
    fleet.sites.set(rate=RATE, delay=ROUND_TRIP / 2, jitter=0, loss=0, queue=50)


def switch_worker(fleet):
    fleet.workers[1].send_signal(signal.SIGUSR1)


ALL = [
    Weather(f"rate of all links drops from {RATE} to {RATE / 10:g} Mbit/s", set_links(rate=RATE / 10), fair, True),
    Weather("2 % loss on all links", set_links(loss=2), fair, False),
    Weather("30 ms of jitter on all links", set_links(delay=40, jitter=30), fair, False),
    Weather("a hop stands still for 3 s", lambda fleet: fleet.sites.stall(0, 1, 3000), fair, False),
    Weather(f"a worker turns {SLOWER} times slower", switch_worker, switch_worker, True),
]


def words_of_plan(fleet):
    plan = fleet.plan(PROMPT)
    return f"{plan.get('plan', '?')} in {plan.get('predicted_ms', 0) / 1000:.1f} s"


def resident_mib(process):
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class MemoryWatch:
    """The most that gateway and workers held in the meantime, beyond what they held before."""

    def __init__(self, fleet):
        self.processes = [fleet.gateway, *fleet.workers]

    def __enter__(self):
        self.before = [resident_mib(p) for p in self.processes]
        self.most = list(self.before)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self):
        while not self.stopping.wait(0.05):
            self.most = [max(m, resident_mib(p)) for m, p in zip(self.most, self.processes)]

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        self.growth = max(m - b for m, b in zip(self.most, self.before))


def ask_many(fleet, prompts, while_running=None):
    """All at once; (tokens or what went wrong, seconds) of each. while_running is called when they have begun."""
    results = [None] * len(prompts)

    def one(i):
        begin = time.perf_counter()
        try:
            answer = fleet.ask(prompts[i], TOKENS, timeout=300)
            results[i] = (answer.tokens, time.perf_counter() - begin)
        except Exception as error:  # whatever it is, it is the result
            results[i] = (str(error), time.perf_counter() - begin)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    if while_running:
        time.sleep(0.5)
        while_running()
    for thread in threads:
        thread.join()
    return results


def wait_for_prediction(fleet, timeout=60):
    """Seconds and requests until the cost model says beforehand what a request then takes, to a quarter; None: it does not come so far."""
    begin, requests = time.monotonic(), 0
    while time.monotonic() - begin < timeout:
        predicted = fleet.plan(PROMPT).get("predicted_ms", 0) / 1000
        took = fleet.ask(fleet.prompt(PROMPT), timeout=300).first_s
        requests += 1
        if abs(predicted / took - 1) < 0.25:
            return time.monotonic() - begin, requests, took
    return None


def run_one(fleet, weather):
    """(claim, holds, words) of what is to be seen."""
    fair(fleet)
    fleet.wait_estimates(RATE, ROUND_TRIP)
    for _ in range(3):
        fleet.ask(fleet.prompt(PROMPT))
    prompts = [fleet.prompt(PROMPT) for _ in range(AT_ONCE)]
    wanted = ask_many(fleet, prompts)
    plan = words_of_plan(fleet)
    with MemoryWatch(fleet) as memory:
        came = ask_many(fleet, prompts, lambda: weather.begin(fleet))
        adapted = wait_for_prediction(fleet) if weather.adapts else None
    after = words_of_plan(fleet)
    weather.end(fleet)
    stages = len(fleet.chain()["stages"])
    slow = max(seconds for _, seconds in came)
    calm = max(seconds for _, seconds in wanted)
    wrong = [c[0] for w, c in zip(wanted, came) if c[0] != w[0]]
    print(f"  {weather.name}")
    print(f"      {AT_ONCE} requests at once: {slow:.1f} s instead of {calm:.1f} s; memory grew by {memory.growth:.0f} MiB at most; plan {plan} before, {after} after"
          + ("" if stages == STAGES else f"; a worker was taken for gone, the chain has {stages} stages now"), flush=True)
    yield "requests finish in bad weather, with the same tokens", not wrong, f"{weather.name}: {len(wrong)} of {AT_ONCE}, as {str(wrong)[:200]}"
    yield f"memory stays bounded (growth under {MEMORY_MIB} MiB)", memory.growth < MEMORY_MIB, f"{weather.name}: {memory.growth:.0f} MiB"
    if weather.adapts:
        if adapted:
            print(f"      predicted rightly after {adapted[0]:.1f} s, at the {adapted[1]}. request, which took {adapted[2]:.1f} s")
        yield "the cost model adapts", adapted is not None, f"{weather.name}: still {after}"


def run(make_fleet):
    """Each weather comes to a fleet of its own: a long stall may cost a chain a worker, which is not for the next one to show."""
    print(f"\nBad weather on {STAGES} stages, {RATE} Mbit/s, {ROUND_TRIP} ms; it begins while {AT_ONCE} prompts of {PROMPT} are under way")
    claims = []
    for weather in ALL:
        with make_fleet() as fleet:
            claims += list(run_one(fleet, weather))
    return claims
