"""More work than there is room for: refusals are quick and polite, what is admitted is served as well as without them, one key at twenty times
the load does not move the others, and what expires in the queue costs the workers nothing.

Short here; LONGHAUL_TEST_LONG=1 overloads for a minute and asks for the whole of what is promised."""

import asyncio
import json
import math
import os
import random
import sys
import tempfile
import time
import unittest
import urllib.request

from api_keys import key_line, write_private
from fleet import Fleet
from programs import cpu_seconds, is_sanitized, run_tests, wait_until
from raw_http import request
from stream import Stream

LONG = bool(os.environ.get("LONGHAUL_TEST_LONG"))
SECONDS = 60 if LONG else 3
PLACES, QUEUE = 8, 16
TOKENS = 12
PROMPT = "Once upon a time there was a lighthouse keeper who"
STORY = "The keeper wrote down every ship that passed the rock at night, and what the wind was like, and how the lamp had burned. " * 5
# Whoever asks is elsewhere; here it shares the cores with the workers. So they work at less than half speed, which leaves its time to itself.
SLOWDOWN = "2.5" if LONG else "1"
# In the short runs, beside other programs, a few requests tell little; in a queue of their own each of the others would wait for 240 greedy ones.
GOODPUT = 0.95 if LONG else 0.3
TIMES_ALONE = 1.5 if LONG else 12
MEMORY_GROWTH = 32 << 20


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(len(values) * share) - 1)]


class Answer:
    """Of one completion: its status, its seconds to the first piece of the body and to the end, and its text."""

    def __init__(self, status, first_s, whole_s, headers, body):
        self.status, self.first_s, self.whole_s, self.headers, self.body = status, first_s, whole_s, headers, body


async def complete(port, body, key=None):
    begun = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    headers = [("Connection", "close")] + ([("Authorization", f"Bearer {key}")] if key else [])
    try:
        writer.write(request("POST", "/v1/completions", body, headers))
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        piece = await reader.read(1)
        first_s = time.monotonic() - begun
        rest = await reader.read()
    finally:
        writer.close()
    fields = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
    return Answer(int(head[0].split()[1]), first_s, time.monotonic() - begun, fields, piece + rest)


def body_of(prompt=PROMPT, tokens=TOKENS, **more):
    return {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}


async def keep_busy(port, clients, seconds, key=None, **more):
    """So many clients that ask again as soon as they have their answers; these."""
    answers, until = [], time.monotonic() + seconds

    async def client():
        while time.monotonic() < until:
            answers.append(await complete(port, body_of(**more), key))

    await asyncio.gather(*(client() for _ in range(clients)))
    return answers


async def ask_at_random(port, per_second, seconds, seed, key=None, prompt=PROMPT, is_new=False, **more):
    """Whoever comes does not look whether others wait. is_new: no prompt begins as one before it did."""
    dice, tasks, at = random.Random(seed), [], time.monotonic()
    until = at + seconds
    while (at := at + dice.expovariate(per_second)) < until:
        await asyncio.sleep(max(0, at - time.monotonic()))
        begin = f"{dice.randrange(10**9)} " if is_new else ""
        tasks.append(asyncio.create_task(complete(port, body_of(begin + prompt, **more), key)))
    return list(await asyncio.gather(*tasks))


class Overload(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(2, gateway_flags=["--max-sequences", str(PLACES), "--max-queue", str(QUEUE), "--renew-ms", "100",
                                            "--plan-delay-ms", "300"], worker_flags=["--slowdown", SLOWDOWN]).__enter__()
        cls.text = cls.text_of(asyncio.run(complete(cls.fleet.port, body_of())))

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    @staticmethod
    def text_of(answer):
        assert answer.status == 200, answer.body
        choice = json.loads(answer.body)["choices"][0]
        assert choice["finish_reason"] == "length", choice
        return choice["text"]

    def memory(self):
        with open(f"/proc/{self.fleet.gateway.pid}/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))

    def served_per_second(self, work):
        """Runs it; how many were served a second, the answers, and how much of a core this program, the gateway and the workers took."""
        pids = [os.getpid(), self.fleet.gateway.pid, *(worker.pid for worker in self.fleet.workers)]
        before, begun, cpu = self.finished(), time.monotonic(), [cpu_seconds(pid) for pid in pids]
        answers = asyncio.run(work)
        finished, seconds = self.finished() - before, time.monotonic() - begun
        asking, gateway, *workers = (f"{(cpu_seconds(pid) - spent) / seconds:.2f}" for pid, spent in zip(pids, cpu))
        print(f"    of a core: asking {asking}, the gateway {gateway}, the workers {' and '.join(workers)}")
        return finished / seconds, answers

    def finished(self):
        return self.fleet.fleet_state()["queue"]["totals"]["finished"]

    def test_ten_times_capacity(self):
        port = self.fleet.port
        best, _ = self.served_per_second(keep_busy(port, PLACES + QUEUE // 2, max(2, SECONDS / 3)))
        memory = self.memory()
        goodput, answers = self.served_per_second(ask_at_random(port, 10 * best, SECONDS, 5))
        growth = self.memory() - memory
        refused = [a for a in answers if a.status == 429]
        served = [a for a in answers if a.status == 200]
        self.assertEqual(len(refused) + len(served), len(answers), {a.status for a in answers})
        refused_s = percentile([a.whole_s for a in refused], 0.99)
        print(f"    {best:.1f} a second at best; of {10 * best:.0f} a second {goodput:.1f} were served and {len(refused)} refused, "
              f"within {percentile([a.whole_s for a in refused], 0.5) * 1000:.1f} ms (p50), {refused_s * 1000:.1f} (p99); "
              f"memory grew by {growth >> 10} KiB")
        for answer in served:
            self.assertEqual(self.text_of(answer), self.text)
        for answer in refused:
            self.assertEqual(json.loads(answer.body)["error"]["code"], "queue_full")
            self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
        self.assertGreater(len(refused), (5 if LONG else 2) * (len(served) - PLACES - QUEUE)) # so many fill the queue first
        self.assertLess(refused_s, 0.05 if LONG else percentile([a.whole_s for a in served], 0.5))
        self.assertGreaterEqual(goodput, GOODPUT * best)
        self.assertLess(growth, MEMORY_GROWTH)
        self.assertEqual(self.fleet.fleet_state()["queue"]["totals"]["failed"], 0)

    def test_long_prompts_do_not_stall_a_stream(self):
        """A token waits at each of the two stages for one piece of a prompt, which the budget of 50 ms bounds: for a small part of the whole prompt."""
        asyncio.run(complete(self.fleet.port, body_of(STORY)))
        with Stream(self.fleet.port, PROMPT, 1000) as stream:
            stream.read(20)
            alone_s = percentile(stream.gaps, 0.5)
            stream.gaps.clear()
            begun = time.monotonic()
            with Stream(self.fleet.port, STORY * 14, 1) as prompt:
                prompt.connection.socket.setblocking(False)
                while not self.has_begun(prompt):
                    stream.step()
            prompt_s = time.monotonic() - begun
            gaps = list(stream.gaps)
        usual_s, worst_s = percentile(gaps, 0.5), percentile(gaps, 0.95)
        print(f"    gaps between tokens: {alone_s * 1000:.0f} ms alone; {len(gaps)} beside a long prompt: p50 {usual_s * 1000:.0f}, "
              f"p95 {worst_s * 1000:.0f} ms, longest {max(gaps) * 1000:.0f} ms")
        self.assertGreater(len(gaps), 10)
        self.assertLess(worst_s, alone_s + 2 * 0.05 * 1.5 if LONG else prompt_s / 4)

    @staticmethod
    def has_begun(stream):
        """Whether its answer is there; it is not waited for."""
        try:
            return b"data:" in stream.connection.socket.recv(65536)
        except BlockingIOError:
            return False

    def rows(self):
        wait_until(lambda: not any(self.fleet.fleet_state()["queue"][name] for name in ("running", "waiting", "releasing")), "all is over")
        totals = self.fleet.fleet_state()["queue"]["totals"]
        return totals["rows"], totals["failed"]

    def test_what_expires_in_the_queue_costs_nothing(self):
        """Eight streams hold all places; ten more requests wait behind them until their time is over."""
        late = []

        async def wait_in_vain():
            late.extend(await asyncio.gather(*(complete(self.fleet.port, body_of(timeout=0.2 + 0.02 * i)) for i in range(10))))

        cost = []
        for with_late in (False, True):
            before = self.rows()
            streams = [Stream(self.fleet.port, PROMPT, 120 if is_sanitized() else 300) for _ in range(PLACES)]
            for stream in streams:
                stream.read(2)
            if with_late:
                asyncio.run(wait_in_vain())
                self.assertEqual(self.fleet.fleet_state()["queue"]["running"], PLACES, "all are told before a place is free")
            for stream in streams:
                stream.finish()
                stream.connection.close()
            after = self.rows()
            cost.append(after[0] - before[0])
            self.assertEqual(after[1] - before[1], 10 * with_late)
        self.assertEqual({a.status for a in late}, {408})
        self.assertEqual(cost[0], cost[1])


class GreedyKey(unittest.TestCase):
    OTHERS = ("a", "b", "c")

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="longhaul-keys-")
        keys = "".join(key_line(name, f"key-{name}", *(["admin"] if name == "a" else [])) for name in (*cls.OTHERS, "greedy"))
        flags = ["--api-key-file", write_private(os.path.join(cls.folder.name, "keys"), keys), "--max-sequences", "16", "--max-queue", "240",
                 "--plan-delay-ms", "300"]
        cls.fleet = Fleet(2, gateway_flags=flags).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)
        cls.folder.cleanup()

    async def others(self, per_second, seconds, round_=0):
        """The seconds to their first tokens."""
        asked = (ask_at_random(self.fleet.port, per_second, seconds, 1000 * round_ + ord(name), f"key-{name}", STORY, True, tokens=4,
                               stream=True) for name in self.OTHERS)
        answers = [answer for some in await asyncio.gather(*asked) for answer in some]
        assert {a.status for a in answers} == {200}, {(a.status, a.body) for a in answers if a.status != 200}
        return [a.first_s for a in answers]

    async def beside(self, per_second, seconds, round_):
        """The same, with the greedy one there; after a while in which the gateway learns what the others need."""
        greedy = asyncio.create_task(ask_at_random(self.fleet.port, 20 * per_second, 1000, round_, "key-greedy", STORY, True, tokens=30))
        try:
            await self.others(per_second, 5 if LONG else 2)
            return await self.others(per_second, seconds, round_)
        finally:
            greedy.cancel()

    def is_idle(self):
        with urllib.request.urlopen(urllib.request.Request(self.fleet.url + "/fleet", headers={"Authorization": "Bearer key-a"})) as answer:
            queue = json.load(answer)["queue"]
        return queue["running"] + queue["waiting"] == 0

    def test_one_at_twenty_times_the_load(self):
        rounds, seconds, per_second, share = (4, 40, 0.5, 0.99) if LONG else (1, 3, 1, 0.75)
        alone, beside = [], []
        for round_ in range(rounds): # one after the other, so that a machine that changes is the same for both
            alone += asyncio.run(self.others(per_second, seconds, round_))
            beside += asyncio.run(self.beside(per_second, seconds, round_))
            wait_until(self.is_idle, "the greedy one's are gone")
        print(f"    first tokens of {len(alone)} alone: p50 {percentile(alone, 0.5) * 1000:.0f}, p{share * 100:.0f} "
              f"{percentile(alone, share) * 1000:.0f} ms; of {len(beside)} beside the greedy one: p50 {percentile(beside, 0.5) * 1000:.0f}, "
              f"p{share * 100:.0f} {percentile(beside, share) * 1000:.0f} ms")
        self.assertLessEqual(percentile(beside, share), TIMES_ALONE * percentile(alone, share))


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=["Overload.test_what_expires_in_the_queue_costs_nothing"])
