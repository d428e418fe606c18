"""Streams that run while something is done to the fleet, and what became of each."""

import json
import threading
import time

from chaos_fleet import API_PORT, GATEWAY
from stream import Stream

PROMPTS = [
    "Once upon a time there was a lighthouse keeper who",
    "The three most important rules of sailing are",
    "Dear Sir or Madam, I am writing to you because the parcel that I ordered in spring has",
    "def fibonacci(n):",
    "In the beginning the universe was created. This has made a lot of people very",
    "List of capitals in Europe: Paris, Berlin, Madrid,",
    "Water boils at a lower temperature on a mountain, since " * 6,
    "A train leaves the station at noon with forty passengers. " * 12,
]


def settings(number):
    """Of stream `number`: every other one is greedy, the rest draw."""
    return {"temperature": 0} if number % 2 == 0 else {"temperature": 1, "top_p": 0.95, "seed": 1000 + number}


class Outcome:
    """What came of one stream. verdict: same, error (a clean one), or what must never be: different, polite, cut, hung."""

    def __init__(self):
        self.text, self.tokens = "", []
        self.verdict, self.detail = "hung", ""
        self.ended = None
        self.times = []  # of the request and of each event with text

    def longest_pause(self):
        """Between two events, or from the last one to the stream's end; (seconds, when it began)."""
        times = self.times + ([self.ended] if self.ended else [])
        return max(((b - a, a) for a, b in zip(times, times[1:])), default=(0.0, 0.0))


class Streams:
    """So many at once, each with its own prompt. expected: the outcomes of an undisturbed run, or None: this is one."""

    def __init__(self, fleet, count, tokens, expected=None):
        self.fleet, self.tokens, self.expected = fleet, tokens, expected
        self.outcomes = [Outcome() for _ in range(count)]
        self.changed = threading.Condition()
        self.token_count = 0
        self.threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(count)]

    def start(self):
        for thread in self.threads:
            thread.start()
        return self

    def is_over(self):
        return not any(thread.is_alive() for thread in self.threads)

    def wait_tokens(self, count, timeout):
        """Until so many tokens have come to all streams together; false: they end before."""
        deadline = time.monotonic() + timeout
        with self.changed:
            while self.token_count < count and not self.is_over() and time.monotonic() < deadline:
                self.changed.wait(0.05)
            return self.token_count >= count

    def join(self, deadline):
        for thread in self.threads:
            thread.join(max(0, deadline - time.monotonic()))
        return self.is_over()

    # ---- One of them

    def _run(self, number):
        outcome = self.outcomes[number]
        outcome.times.append(time.monotonic())
        try:
            with self.fleet.sites.inside(GATEWAY):
                stream = Stream(API_PORT, PROMPTS[number % len(PROMPTS)], self.tokens, timeout=120, logprobs=0, **settings(number))
            with stream:
                self._read(stream, outcome)
                outcome.verdict, outcome.detail = self._judge(number, stream, outcome)
        except TimeoutError:
            pass
        except Exception as error:  # whatever it is, it is the stream's outcome
            outcome.verdict, outcome.detail = "cut", repr(error)
        outcome.ended = time.monotonic()

    def _read(self, stream, outcome):
        status = stream.head()
        if status is None:
            stream.is_cut = True
            return
        if status != 200:
            body = json.loads(stream.connection.exactly(int(stream.headers["content-length"])))
            stream.error = body["error"]
            return
        while stream.step():
            outcome.text = stream.text
            if len(stream.tokens) > len(outcome.tokens):
                outcome.times.append(time.monotonic())
                with self.changed:
                    self.token_count += len(stream.tokens) - len(outcome.tokens)
                    self.changed.notify_all()
                outcome.tokens = list(stream.tokens)

    def _judge(self, number, stream, outcome):
        expected = self.expected[number] if self.expected else outcome
        if outcome.tokens != expected.tokens[: len(outcome.tokens)] or not expected.text.startswith(outcome.text):
            return "different", f"expected {expected.text!r}, got {outcome.text!r}"
        if stream.error:
            return "error", stream.error["message"]
        if not stream.is_done:
            return "cut", "no [DONE] and no error"
        if stream.finish_reason != "length" or len(outcome.tokens) != self.tokens or outcome.text != expected.text:
            return "polite", f"{len(outcome.tokens)} of {self.tokens} tokens, finish reason {stream.finish_reason}"
        return "same", ""
