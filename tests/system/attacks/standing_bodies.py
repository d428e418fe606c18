"""Bodies that stop after their first megabytes hold the memory for bodies, and come back when they are ended."""

import os
import socket
import tempfile
import threading

from api_keys import key_line, write_private
from bystanders import harm_of
from fleet import Fleet

WHAT = "one key's 32 bodies stand still after 4 MiB; another key asks with 600 KB, too"
COUNT = 32
BYTES = 8 << 20
HALF = b" " * ((4 << 20) + 1)


def stand_still(port, is_over):
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-of-the-attacker\r\nContent-Type: application/json\r\nContent-Length: {BYTES}\r\n\r\n"
    while not is_over.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as attacker:
                attacker.sendall(head.encode() + HALF)
                attacker.settimeout(0.2)
                while not is_over.is_set():
                    try:
                        if not attacker.recv(65536):
                            break
                    except TimeoutError:
                        pass
        except OSError:
            pass
        is_over.wait(0.1)


def run(port):
    def attack(is_over):
        attackers = [threading.Thread(target=stand_still, args=(port, is_over)) for _ in range(COUNT)]
        for attacker in attackers:
            attacker.start()
        for attacker in attackers:
            attacker.join()

    return attack


def attack():
    with tempfile.TemporaryDirectory() as folder:
        lines = key_line("client", "key-of-the-client") + key_line("attacker", "key-of-the-attacker")
        keys = write_private(os.path.join(folder, "keys"), lines)
        with Fleet(workers=1, gateway_flags=["--api-key-file", keys]) as fleet:
            quiet = harm_of(fleet, 4, key="key-of-the-client", padding=600_000)
            attacked = harm_of(fleet, 10, run(fleet.port), key="key-of-the-client", padding=600_000)
        return quiet, attacked
