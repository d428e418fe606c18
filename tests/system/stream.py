"""A streaming completion, read event by event, so that a test can do something to the fleet between two of them."""

import json
import time

from programs import PATIENCE_S
from raw_http import Connection, request


class Stream:
    """Open from the constructor on. `text` is what has come, `tokens` the same as pairs of text and logprob where these were asked for;
    `tls`: the context of an API with TLS. `finish_reason` and `error` stay None until they come; `id`: the request's; `is_done`: with [DONE]; `gaps`: seconds between the events with text."""

    def __init__(self, port, prompt, tokens, timeout=PATIENCE_S, key=None, tls=None, **more):
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True, **more}
        self.text, self.tokens, self.finish_reason, self.error, self.is_done, self.gaps = "", [], None, None, False, []
        self.connection = Connection(port, timeout)
        if tls:
            self.connection.socket = tls.wrap_socket(self.connection.socket, server_hostname="localhost")
        self.connection.send(request("POST", "/v1/completions", body, [("Authorization", f"Bearer {key}")] if key else ()))
        self.status = self.id = None
        self.pending, self.last = b"", None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def head(self):
        if self.status is None:
            head = self.connection.head()
            if head is None:
                raise ConnectionResetError("closed before an answer")
            self.status, self.headers = head
        return self.status

    def event(self):
        """The data of the next event; None: the body is over, `is_cut` says how."""
        assert self.head() == 200, self.connection.exactly(int(self.headers["content-length"]))
        while b"\n\n" not in self.pending:
            data = self.connection.chunk()
            if not data:
                self.is_cut = data is None
                return None
            self.pending += data
        block, _, self.pending = self.pending.partition(b"\n\n")
        return self.event() if block.startswith(b":") else block.removeprefix(b"data: ")

    def step(self):
        """Takes in one event. False: there was none."""
        data = self.event()
        if data is None:
            return False
        if data == b"[DONE]":
            self.is_done = True
            return True
        event = json.loads(data)
        if "error" in event:
            self.error = event["error"]
            return True
        self.id = event.get("id", self.id)
        for choice in event["choices"]:
            self.text += choice["text"]
            if choice.get("logprobs"):
                self.tokens += zip(choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"])
            self.finish_reason = choice["finish_reason"] or self.finish_reason
        now = time.monotonic()
        if self.last is not None:
            self.gaps.append(now - self.last)
        self.last = now
        return True

    def read(self, events):
        """So many events further."""
        for _ in range(events):
            assert self.step(), "the stream ended early"
        return self

    def finish(self):
        while self.step():
            pass
        return self
