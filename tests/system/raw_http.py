"""HTTP as bytes: what is sent is what is written here, and what comes back is taken apart strictly."""

import json
import socket
import time

from programs import PATIENCE_S


class Reply:
    def __init__(self, status, headers, body, closed):
        self.status, self.headers, self.body, self.closed = status, headers, body, closed

    def json(self):
        return json.loads(self.body)

    def error(self):
        """The error object, which must have its four keys."""
        error = self.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert error["code"] is None or isinstance(error["code"], str), error
        return error


class Connection:
    def __init__(self, port, timeout=PATIENCE_S, source=None, host="127.0.0.1"):
        """source: the address that it comes from."""
        self.socket = socket.create_connection((host, port), timeout, (source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.pending += data
        return bool(data)

    def until(self, mark):
        """Everything up to and with the mark; None when the connection ends before."""
        while mark not in self.pending:
            if not self.more():
                return None
        head, _, self.pending = self.pending.partition(mark)
        return head + mark

    def exactly(self, count):
        while len(self.pending) < count:
            if not self.more():
                return None
        data, self.pending = self.pending[:count], self.pending[count:]
        return data

    def is_closed(self):
        """Whether the other side closes, without a further byte."""
        return not self.more() and not self.pending

    def head(self):
        """Status and headers (names in lower case); None when the connection ends before."""
        head = self.until(b"\r\n\r\n")
        if head is None:
            return None
        lines = head.decode("latin-1").split("\r\n")
        assert lines[0].startswith("HTTP/1."), lines[0]
        headers = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return int(lines[0].split()[1]), headers

    def chunk(self):
        """The next chunk of a chunked body: b"" is the last; None: cut off."""
        size = self.until(b"\r\n")
        if size is None:
            return None
        data = self.exactly(int(size, 16) + 2)
        return None if data is None else data[:-2]

    def reply(self, method="POST"):
        while True:
            head = self.head()
            if head is None:
                return None
            status, headers = head
            if status != 100:
                break
        if method == "HEAD" or status == 204:
            return Reply(status, headers, b"", False)
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                data = self.chunk()
                if data is None:
                    return Reply(status, headers, body, True)
                if not data:
                    return Reply(status, headers, body, False)
                body += data
        body = self.exactly(int(headers.get("content-length", "0")))
        return Reply(status, headers, body, False)


def request(method, path, body=None, headers=(), host="localhost"):
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n"
    if body is not None:
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    for name, value in headers:
        head += f"{name}: {value}\r\n"
    return head.encode() + b"\r\n" + (body or b"")


def ask(port, method, path, body=None, headers=(), timeout=PATIENCE_S):
    with Connection(port, timeout) as connection:
        connection.send(request(method, path, body, headers))
        return connection.reply(method)


def events(body):
    """The data of each event of a stream, as text; the last must be [DONE]. Comments are left out."""
    assert body.endswith(b"\n\n"), body[-80:]
    found = []
    for block in body.decode("utf-8").split("\n\n")[:-1]:
        if block.startswith(": "):
            continue
        assert block.startswith("data: ") and "\n" not in block, block
        found.append(block[len("data: "):])
    return found


def chunks(body):
    """The JSON of each event before [DONE]."""
    found = events(body)
    assert found[-1] == "[DONE]", found[-1]
    return [json.loads(text) for text in found[:-1]]


def elapsed(since):
    return time.monotonic() - since
