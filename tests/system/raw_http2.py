"""HTTP/2 as bytes, right or wrong (RFC 9113 and 7541), and a connection that sends them and keeps what comes back."""

import collections
import selectors
import socket
import ssl
import struct
import time

from programs import PATIENCE_S

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 1
END_HEADERS, PADDED, WITH_PRIORITY = 4, 8, 32
ERRORS = ("NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR REFUSED_STREAM CANCEL "
          "COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED").split()
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


NO_TABLE = b"\x20"  # begins the first header block behind the acknowledgement of SETTINGS that allow no table (RFC 7541, 4.2)


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    """length: what the header says, where that is a lie."""
    return struct.pack(">I", len(payload) if length is None else length)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def setting(identifier, value):
    return struct.pack(">HI", identifier, value)


def u32(value):
    return struct.pack(">I", value)


def field(name, value):
    """A header field as a literal without indexing; both texts are shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def block(method="GET", path="/nothing", *more, scheme="http", authority="peer"):
    """A request's header block; None leaves a pseudo header out."""
    pseudo = {":method": method, ":scheme": scheme, ":path": path, ":authority": authority}
    return b"".join(field(name, value) for name, value in pseudo.items() if value is not None) + b"".join(more)


def get(stream, *more, path="/nothing"):
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, block("GET", path, *more))


def post(stream, *more, path="/probe"):
    """A request whose body is still to come."""
    return frame(HEADERS, END_HEADERS, stream, block("POST", path, *more))


def amplifying_requests(count):
    """The first one's last field, of 3.9 KB, enters the dynamic table of HPACK; each of the others names it 16,000 times. For a peer that does not
    acknowledge SETTINGS, and so may have a table."""
    entry = b"\x40\x01a\x7f\xbd\x1d" + b"b" * 3900  # 127 + 0x3d + 0x1d * 128
    first = frame(HEADERS, END_HEADERS | END_STREAM, 1, block() + entry)
    named = block() + b"\xbe" * (16384 - len(block()))
    return first + b"".join(frame(HEADERS, END_HEADERS | END_STREAM, 3 + 2 * number, named) for number in range(count))


class Connection:
    """frames: what has come, as (type, flags, stream, payload); is_over: the other side has closed."""

    def __init__(self, port, tls=None, source=None, greeting=PREFACE + frame(SETTINGS)):
        self.frames, self.pending, self.is_over = [], b"", False
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.socket.setblocking(False)
        self.left = collections.deque([greeting])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.left.append(data)

    def run(self, is_enough, timeout=PATIENCE_S):
        """Sends what is left and reads, until it is enough or the other side has closed. False: neither in time."""
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            key = selector.register(self.socket, selectors.EVENT_READ)
            while not self.is_over and not is_enough():
                if time.monotonic() > deadline:
                    return False
                selector.modify(self.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if self.left else 0))
                self.step(selector.select(0.1), key)
        return True

    def step(self, events, key):
        try:
            for _, mask in events:
                if mask & selectors.EVENT_WRITE and self.left:
                    self.send_some()
                if mask & selectors.EVENT_READ:
                    self.read()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            pass
        except OSError:
            self.left.clear()
            self.read_rest()

    def send_some(self):
        sent = self.socket.send(self.left[0][:1 << 16])
        data = self.left.popleft()
        if sent < len(data):
            self.left.appendleft(data[sent:])

    def read_rest(self):
        """What came before the connection was broken off."""
        try:
            self.socket.setblocking(True)
            self.read()
        except OSError:
            self.is_over = True

    def read(self):
        while True:
            data = self.socket.recv(1 << 16)
            if not data:
                self.is_over = True
                return
            self.take(data)

    def take(self, data):
        self.pending += data
        while len(self.pending) >= 9:
            length = int.from_bytes(self.pending[:3], "big")
            if len(self.pending) < 9 + length:
                return
            kind, flags, stream = struct.unpack(">BBI", self.pending[3:9])
            payload, self.pending = self.pending[9:9 + length], self.pending[9 + length:]
            self.frames.append((kind, flags, stream, payload))
            if kind == PING and not flags & ACK:
                self.send(frame(PING, ACK, 0, payload))
            elif kind == SETTINGS and not flags & ACK:
                self.send(frame(SETTINGS, ACK))

    def has_answered(self, number):
        return (PING, ACK, 0, u32(number) * 2) in self.frames

    def outcome(self, timeout=PATIENCE_S):
        """What has come of what was sent: "GOAWAY <error>", "closed"; or, where the connection lives on, "RST_STREAM <error>" or "alive". Two PINGs:
        answers to them overtake what else there is to be said."""
        for number in (1, 2):
            self.send(frame(PING, 0, 0, u32(number) * 2))
            if not self.run(lambda: self.has_answered(number) or self.last_words(), timeout):
                return "silent"
        return self.last_words() or self.reset() or ("closed" if self.is_over else "alive")

    def last_words(self):
        codes = [int.from_bytes(payload[4:8], "big") for kind, _, _, payload in self.frames if kind == GOAWAY]
        return f"GOAWAY {ERRORS[codes[0]]}" if codes else None

    def reset(self):
        codes = [int.from_bytes(payload, "big") for kind, _, _, payload in self.frames if kind == RST_STREAM]
        return f"RST_STREAM {ERRORS[codes[0]]}" if codes else None

    def answers(self):
        return sum(kind == HEADERS for kind, *_ in self.frames)
