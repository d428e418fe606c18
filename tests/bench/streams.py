"""Many streamed completions at once on one thread, and when each of their events came."""

import json
import math
import re
import selectors
import time

READ_BYTES = 1 << 16
# An event with something in it: the gateway's and llama.cpp's both begin so.
EVENT = b"data: {"
# What a stream says of its tokens at its end: the gateway's usage, llama.cpp's last event.
COUNTS = (re.compile(rb'"completion_tokens":\s*(\d+)'), re.compile(rb'"tokens_predicted":\s*(\d+)'))


class Stream:
    def __init__(self, connect, address, path, body):
        self.times = []  # of its events, the last one apart
        self.tokens = math.nan  # as the server counts them
        self.ended = False
        self._tail = b""
        text = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {address[0]}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        self.socket = connect()
        self.socket.settimeout(30)
        self.socket.connect(address)
        self.begin = time.perf_counter()
        self.socket.sendall(head.encode() + text)
        self.socket.setblocking(False)

    def read(self):
        """Takes what has come; false: there will be no more."""
        data = self.socket.recv(READ_BYTES)
        now = time.perf_counter()
        if not data:
            return False
        if not self.times and not self._tail and not data.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the server says: {data[:300]}")
        # An event's begin may be cut in two; one that was counted must not be again.
        text = self._tail + data
        self.times += [now] * (text.count(EVENT) - self._tail.count(EVENT))
        for pattern in COUNTS:
            found = pattern.findall(text)
            if found and int(found[-1]) > 0:
                self.tokens = int(found[-1])
        if b'data: {"error"' in text:
            raise RuntimeError(f"the server says: {text[-300:]}")
        self._tail = text[-400:]
        return True


def run(connect, address, path, bodies, spread_s, timeout_s=300):
    """Begins one stream for each body, evenly over spread_s, and reads all to their ends. connect() gives a socket."""
    streams, waiting = [], list(bodies)
    begin, gap = time.perf_counter(), spread_s / max(1, len(bodies))
    selector = selectors.DefaultSelector()
    try:
        while waiting or selector.get_map():
            due = begin + gap * len(streams)
            while waiting and time.perf_counter() >= due:
                stream = Stream(connect, address, path, waiting.pop(0))
                streams.append(stream)
                selector.register(stream.socket, selectors.EVENT_READ, stream)
                due = begin + gap * len(streams)
            for key, _ in selector.select(max(0.0, due - time.perf_counter()) if waiting else 1):
                if not key.data.read():
                    key.data.ended = True
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
            if time.perf_counter() - begin > timeout_s:
                raise TimeoutError(f"{sum(not s.ended for s in streams)} of {len(streams)} streams have not ended")
    finally:
        for key in list(selector.get_map().values()):
            key.fileobj.close()
        selector.close()
    return streams


def steady_rate(streams):
    """Tokens per second of all together, while all of them decode: from the last one's first token to the first one's last. An event is a
    token, but now and then a token that is half a character comes with the next one: so events count for what a stream's tokens say."""
    begin, end = max(s.times[0] for s in streams), min(s.times[-1] for s in streams)
    events = sum(sum(begin < t <= end for t in s.times) for s in streams)
    share = sum(s.tokens for s in streams) / sum(len(s.times) for s in streams)
    return events * share / (end - begin) if end > begin else math.nan
