"""What strangers, revoked members and copies of a member's key do at a fleet port that gives certificates."""

import concurrent.futures
import json
import pathlib
import shutil
import tempfile
import time

from joining import JOIN_ALPN, Machine, Peer

# Whoever has copied a key asks from another machine.
ELSEWHERE = "127.0.0.2"
PAUSE_S = 0.01


class StolenKey:
    """A copy of a worker's key and certificate; the next keys are made beforehand."""

    KEYS = 20

    def __init__(self, state_folder, source=ELSEWHERE):
        self.temporary = tempfile.TemporaryDirectory(prefix="longhaul-stolen-")
        self.folder = pathlib.Path(self.temporary.name)
        self.source = source
        for part in ("key", "certificate", "trust"):
            shutil.copy(state_folder / "current" / f"{part}.pem", self.folder)
        self.thief = Machine(self.folder, "thief")
        self.thief.name = (state_folder / "current" / "name").read_text().strip()
        self.thief.key, self.thief.certificate = self.folder / "key.pem", self.folder / "certificate.pem"
        self.requests = [self.thief.make_request(self.folder / "next.key") for _ in range(self.KEYS)]
        self.granted = 0

    def renew_again_and_again(self, port, is_over):
        number = 0
        while not is_over.is_set():
            try:
                with self.thief.connect(port, self.source) as peer:
                    self.granted += self.thief.ask_renewal(peer, self.requests[number % self.KEYS])[0] == 200
                number += 1
            except OSError:
                pass
            is_over.wait(PAUSE_S)
        self.temporary.cleanup()


def join_with_wrong_secrets(port, is_over):
    """From as many addresses as loopback has, so that no limit on one of them helps."""
    with tempfile.TemporaryDirectory(prefix="longhaul-stranger-") as folder:
        csr = Machine(folder, "stranger").csr
    body = json.dumps({"protocol": 1, "token": "0123456789abcdef", "secret": "A" * 43, "name": "stranger", "csr": csr, "addresses": [],
                       "time": int(time.time()), "version": "test"}).encode()
    number = 0
    while not is_over.is_set():
        number += 1
        try:
            with Peer(port, [JOIN_ALPN], source=f"127.0.{number // 250 % 250 + 3}.{number % 250 + 1}") as peer:
                peer.greet().request("POST", "/join", body)
        except OSError:
            pass
        is_over.wait(PAUSE_S)


def come_back_though_revoked(machine, port, is_over):
    while not is_over.is_set():
        machine.is_accepted(port)
        is_over.wait(PAUSE_S)


class Crowd:
    """with Crowd(attack, ...): each attack is called with an event that is set at the end."""

    def __init__(self, is_over, *attacks):
        self.is_over, self.attacks = is_over, attacks
        self.pool = concurrent.futures.ThreadPoolExecutor(len(attacks))

    def __enter__(self):
        self.running = [self.pool.submit(attack, self.is_over) for attack in self.attacks]
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.pool.shutdown()
        for attack in self.running:
            attack.result()
