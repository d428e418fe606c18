"""What a peer may do to a gateway by asking for weights: never reading them, and asking while the model's file is cut under it."""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

from fleet import Fleet
from programs import PATIENCE_S, is_sanitized, need_model, run_tests, wait_until

CONNECTIONS, REQUESTS = 3, 250
PEER_MAX = 128  # CONTROL.md, "Weights"
GROWTH_MAX = 16 << 20
HEADERS, SETTINGS, PING = 1, 4, 6
END_STREAM, END_HEADERS, ACK = 1, 4, 1
NO_TABLE = 0x20  # begins the first header block: a dynamic table without room (RFC 7541, 6.3)
TOKENS = 10 if is_sanitized() else 100


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(index, value):
    """A header field without indexing, its name from HPACK's static table."""
    return bytes([index, len(value)]) + value.encode()


class Peer(threading.Thread):
    """A connection with many GETs. It answers PINGs, and otherwise takes no notice of what comes: no window is ever opened again."""

    def __init__(self, port, path, count):
        super().__init__(daemon=True)
        self.statuses, self.failure = [], None
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        fields = b"\x82\x86" + literal(4, path) + literal(1, "gateway")
        gets = b"".join(frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, fields) for number in range(count))
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) + gets)
        self.start()

    def exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def run(self):
        try:
            while True:
                head = self.exactly(9)
                payload = self.exactly(int.from_bytes(head[:3], "big"))
                if head[3] == HEADERS:
                    self.statuses.append(payload[payload[0] == NO_TABLE])
                elif head[3] == PING and not head[4] & ACK:
                    self.socket.sendall(frame(PING, ACK, 0, payload))
        except (OSError, EOFError) as error:
            self.failure = error

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.join()
        self.socket.close()


def rss(pid):
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


def weights_path(fleet):
    return f"/fleet/models/{fleet.fleet_state()['model']['header_sha256']}/weights"


def complete(fleet):
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True})
    request = urllib.request.Request(fleet.url + "/v1/completions", body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())["choices"][0]["text"]


def fetch(url, span):
    """What curl ends with, and how many bytes came."""
    command = ["curl", "--silent", "--http2-prior-knowledge", "--range", span, "--output", os.devnull, "--write-out", "%{size_download}", url]
    ended = subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENCE_S)
    return ended.returncode, int(ended.stdout)


class WeightsServed(unittest.TestCase):
    def test_what_nobody_reads_costs_next_to_nothing(self):
        with Fleet(workers=1) as fleet:
            text = complete(fleet)
            before = rss(fleet.gateway.pid)
            peers = [Peer(fleet.fleet_port, weights_path(fleet), REQUESTS) for _ in range(CONNECTIONS)]
            wait_until(lambda: sum(len(peer.statuses) for peer in peers) == CONNECTIONS * REQUESTS, "all are answered")
            self.assertEqual(complete(fleet), text)
            growth = rss(fleet.gateway.pid) - before
            print(f"{CONNECTIONS * REQUESTS} transfers that nobody reads: {growth >> 10} KiB")
            statuses = [status for peer in peers for status in peer.statuses]
            # 0x88 is HPACK's ":status: 200"; any other one is spelled out.
            self.assertEqual(statuses.count(0x88), PEER_MAX)
            for peer in peers:
                self.assertIsNone(peer.failure)
                peer.close()
            self.assertEqual(complete(fleet), text)
            if not is_sanitized():
                self.assertLess(growth, GROWTH_MAX)

    def test_a_model_file_that_is_cut_ends_transfers_alone(self):
        model = need_model()
        with tempfile.TemporaryDirectory(prefix="longhaul-cut-") as folder:
            path = os.path.join(folder, "model.gguf")
            shutil.copy(model, path)
            with Fleet(workers=1, model=path, fetches=True, worker_flags=["--model", model]) as fleet:
                text = complete(fleet)
                url = f"http://127.0.0.1:{fleet.fleet_port}{weights_path(fleet)}"
                size = os.path.getsize(path)
                os.truncate(path, size // 2)
                self.assertNotEqual(fetch(url, f"{size // 4}-"), (0, size - size // 4))
                self.assertEqual(fetch(url, "0-99999"), (0, 100000))
                self.assertEqual(complete(fleet), text)
                self.assertIn(f"it ends at offset {size // 2}", fleet.gateway.log_text())


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
