"""One stream after another while a test does something to the fleet."""

import threading

from programs import wait_until
from stream import Stream


class Load(threading.Thread):
    """with Load(fleet, prompt, tokens) as load: ...   Each has the text `expected`; None: that of the first. More words are the request's. `problems`:
    what else came; `pauses`: seconds between two events of a stream."""

    def __init__(self, fleet, prompt, tokens, expected=None, **more):
        super().__init__()
        self.fleet, self.request, self.expected = fleet, (prompt, tokens, more), expected
        self.problems, self.pauses, self.answers = [], [], 0
        self.is_over = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.join()

    def run(self):
        prompt, tokens, more = self.request
        while not self.is_over.is_set():
            try:
                with Stream(self.fleet.port, prompt, tokens, **more) as stream:
                    stream.finish()
            except (AssertionError, OSError) as problem:
                self.problems.append(str(problem))
                continue
            self.expected = self.expected or stream.text
            if stream.error or not stream.is_done or stream.text != self.expected:
                self.problems.append(f"{stream.error}, done: {stream.is_done}, text: {stream.text!r}")
            self.answers += 1
            self.pauses += stream.gaps

    def since(self):
        """The longest pause between two tokens since this was last asked, over some answers."""
        begin, answers = len(self.pauses), self.answers
        wait_until(lambda: self.answers >= answers + 5 or self.problems, "more answers")
        return max(self.pauses[begin:])
