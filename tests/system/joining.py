"""A machine that joins a fleet, step by step and in any way a test wants: certificate requests by openssl, TLS by Python, and one HTTP/2 request
for each connection (common/protocol/JOINING.md)."""

import json
import pathlib
import re
import socket
import ssl
import struct
import subprocess
import time

from certificates import EC
from crc32c import seal
from programs import PATIENCE_S, Program, build_folder, free_port, need_file, need_model, wait_until

LOOPBACK = "127.0.0.1"
JOIN_ALPN = "longhaul-join/1"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
STATUSES = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}  # RFC 7541, appendix A
DIGITS = {0b00000: (5, "0"), 0b00001: (5, "1"), 0b00010: (5, "2"), 0b011001: (6, "3"), 0b011010: (6, "4"), 0b011011: (6, "5"), 0b011100: (6, "6"),
          0b011101: (6, "7"), 0b011110: (6, "8"), 0b011111: (6, "9")}  # appendix B


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def field(name, value):
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def huffman_digits(coded):
    bits = "".join(f"{byte:08b}" for byte in coded)
    text = ""
    while len(text) < 3:
        for length in (5, 6):
            found = DIGITS.get(int(bits[:length], 2))
            if found and found[0] == length:
                text, bits = text + found[1], bits[length:]
                break
    return text


def status_of(block):
    """Of a response's header block, whose first field it is."""
    block = block.removeprefix(b"\x20")  # the server uses no table, and says so first
    if block[0] & 0x80:
        return STATUSES[block[0] & 0x7f]
    length, coded = block[1] & 0x7f, block[1] & 0x80
    value = block[2:2 + length]
    return int(huffman_digits(value) if coded else value.decode())


class Peer:
    """One connection to the fleet port. alpn: what it offers; certificate: a file with certificate and key, or None; source: the address of
    loopback that it comes from."""

    def __init__(self, port, alpn=("h2",), certificate=None, key=None, timeout=PATIENCE_S, source=LOOPBACK):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if alpn:
            context.set_alpn_protocols(list(alpn))
        if certificate:
            context.load_cert_chain(certificate, key)
        plain = socket.create_connection((LOOPBACK, port), timeout, (source, 0))
        try:
            self.socket = context.wrap_socket(plain, server_hostname=LOOPBACK)
        except BaseException:
            plain.close()
            raise
        self.pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def selected(self):
        return self.socket.selected_alpn_protocol()

    def greet(self):
        """Both sides have said that they speak HTTP/2; only now it is known that a server takes our certificate."""
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS))
        while self.next_frame()[0] != SETTINGS:
            pass
        return self

    def next_frame(self):
        while len(self.pending) < 9 or len(self.pending) < 9 + int.from_bytes(self.pending[:3], "big"):
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the other side has closed")
            self.pending += data
        length = int.from_bytes(self.pending[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", self.pending[3:9])
        payload, self.pending = self.pending[9:9 + length], self.pending[9 + length:]
        if kind == PING and not flags & 1:
            self.socket.sendall(frame(PING, 1, 0, payload))
        return kind, flags, stream, payload

    def begin(self, method, path, stream=1, ends=True):
        pseudo = {":method": method, ":scheme": "https", ":path": path, ":authority": "gateway"}
        self.socket.sendall(frame(HEADERS, 4 | ends, stream, b"".join(field(*pair) for pair in pseudo.items())))

    def request(self, method, path, body=None, stream=1):
        """Status code and body."""
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        self.begin(method, path, stream, ends=data is None)
        if data is not None:
            for at in range(0, len(data), 16384):
                self.socket.sendall(frame(DATA, 0, stream, data[at:at + 16384]))
            self.socket.sendall(frame(DATA, 1, stream))
        return self.answer(stream)

    def answer(self, stream=1):
        status, body, flags, at = None, b"", 0, 0
        while not (at == stream and flags & 1):
            kind, flags, at, payload = self.next_frame()
            if kind == GOAWAY or (kind == RST_STREAM and at == stream):
                raise ConnectionError(f"frame {kind}: {payload!r}")
            if kind not in (HEADERS, DATA):
                flags = 0
            if at == stream and kind == HEADERS:
                status = status_of(payload)
            if at == stream and kind == DATA:
                body += payload
        return status, body

    def is_closed_within(self, seconds):
        self.socket.settimeout(seconds)
        try:
            while True:
                self.next_frame()
        except TimeoutError:
            return False
        except OSError:
            return True


class Token:
    def __init__(self, line):
        words = re.fullmatch(r"longhaul-worker join https://(\S+) (lh1\.([\w-]{43})\.([0-9a-f]{16})\.([\w-]{43}))\n", line)
        self.address, self.text, self.pin, self.id, self.secret = words.groups()


class Machine:
    """A key, and in the end a certificate, in files of its own."""

    def __init__(self, folder, label, subject=None, extensions=()):
        self.folder = pathlib.Path(folder)
        self.label = label
        self.key, self.certificate, self.trust = (self.folder / f"{label}.{ending}" for ending in ("key", "crt", "trust"))
        self.csr = self.make_request(self.key, subject, extensions)
        self.name = None

    def make_request(self, key, subject=None, extensions=()):
        more = [word for extension in extensions for word in ("-addext", extension)]
        return subprocess.run(["openssl", "req", "-new", *EC, "-subj", f"/CN={subject or self.label}", "-keyout", key, *more], check=True,
                              capture_output=True).stdout.decode()

    def body(self, token, **changes):
        return {"protocol": 1, "token": token.id, "secret": token.secret, "name": self.label, "csr": self.csr, "addresses": [], "time": int(time.time()),
                "version": "test", **changes}

    def ask(self, port, body):
        with Peer(port, [JOIN_ALPN]) as peer:
            status, answer = peer.greet().request("POST", "/join", body)
        return status, json.loads(answer)

    def join(self, port, token, **changes):
        """(status, the error's code or None); keeps what was granted."""
        status, answer = self.ask(port, self.body(token, **changes))
        if status == 200:
            self.keep(answer)
        return status, answer.get("error", {}).get("code")

    def keep(self, grant):
        self.name, self.site = grant["name"], grant["site"]
        self.certificate.write_text(grant["certificate"])
        self.trust.write_text(grant["trust"])

    def connect(self, port, source=LOOPBACK):
        return Peer(port, ["h2"], self.certificate, self.key, source=source).greet()

    def is_accepted(self, port):
        try:
            with self.connect(port) as peer:
                return peer.request("GET", "/fleet/trust")[0] == 200
        except OSError:
            return False

    def ask_renewal(self, peer, csr, name=None):
        """Status and body."""
        return peer.request("POST", f"/fleet/workers/{name or self.name}/certificate",
                            {"protocol": 1, "csr": csr, "addresses": [], "time": int(time.time())})

    def renew(self, port, name=None):
        """With a fresh key; the status."""
        key = self.folder / f"{self.label}-renewed.key"
        csr = self.make_request(key)
        with self.connect(port) as peer:
            status, answer = self.ask_renewal(peer, csr, name)
        if status == 200:
            key.replace(self.key)
            self.keep(json.loads(answer))
        return status

    def report(self, port):
        """As a worker that uses the certificate that it has: the status of the answer."""
        ends = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", self.certificate], check=True, capture_output=True, text=True).stdout
        body = json.dumps({
            "protocol": 4, "instance": "00000000000000aa", "site": self.site, "version": "0", "isa": "none", "threads": 1,
            "addresses": {"tls": f"{LOOPBACK}:9", "plain": None}, "memory_bytes": 1, "kv_bytes": 0, "assignment": None, "compute": None, "next": None,
            "kv": None, "steps": {"active": 0, "done": 0, "failed": 0}, "leaving": False,
            "host": {"certificate_ends_s": ssl.cert_time_to_seconds(ends.strip().partition("=")[2])}})
        with self.connect(port) as peer:
            return peer.request("PUT", f"/fleet/workers/{self.name}", seal(self.name, body).encode())[0]

    def text(self):
        return subprocess.run(["openssl", "x509", "-noout", "-text", "-in", self.certificate], check=True, capture_output=True).stdout.decode()


class OwnFleet:
    """A gateway with a CA of its own, and the commands beside it. environment: words for env(1) of all of them."""

    def __init__(self, folder, flags=(), environment=()):
        self.folder = pathlib.Path(folder)
        self.state = self.folder / "state"
        self.program = need_file(build_folder() / "longhaul-gateway", "longhaul-gateway is not built")
        self.model = need_model()
        self.flags = flags
        self.environment = ["env", *environment] if environment else []
        self.prefix = []  # of the gateway alone
        self.port, self.api_port = free_port(), free_port()
        self.gateway = None
        self.start()

    def start(self):
        self.gateway = Program("gateway", [*self.prefix, *self.environment, self.program, "--model", self.model, "--listen", f"{LOOPBACK}:{self.api_port}", "--fleet-listen",
                                           f"{LOOPBACK}:{self.port}", "--state-dir", self.state, *self.flags], self.folder)
        before = len(self.gateway.log_text())
        wait_until(lambda: not self.gateway.is_running() or "fleet_port=" in self.gateway.log_text()[before:], "the gateway listens")
        assert self.gateway.is_running(), self.gateway.log_text()

    def command(self, *words):
        return subprocess.run([*self.environment, self.program, *words, "--state-dir", self.state], capture_output=True, text=True, timeout=PATIENCE_S)

    def run(self, *words):
        done = self.command(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def token(self, *words):
        return Token(self.run("token", "--site", "office", *words))

    def stop(self):
        return self.gateway.stop()
