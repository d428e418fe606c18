"""Requests with keys that nobody has, as fast as they go: each is refused, and none may fill the log."""

import http.client
import pathlib
import threading

from api_keys import key_line, write_private
from bystanders import harm_of
from fleet import Fleet

WHAT = "strangers ask with wrong keys, as fast as they can, to fill the log"
KEY = "the-key-of-those-who-behave"
LOG_BYTES_MAX = 64 << 10


class KeyFleet(Fleet):
    """Its health is asked for without a key, as everybody may."""

    def start_gateway(self):
        keys = write_private(pathlib.Path(self.folder) / "keys", key_line("bystander", KEY))
        self.gateway_flags = [*self.gateway_flags, "--api-key-file", keys]
        super().start_gateway()


def ask_wrongly(port, is_over):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    while not is_over.is_set():
        try:
            connection.request("GET", "/v1/models", headers={"Authorization": "Bearer not-a-key"})
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()


def attack():
    def run(is_over):
        askers = [threading.Thread(target=ask_wrongly, args=(fleet.port, is_over)) for _ in range(4)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()

    with KeyFleet(workers=1) as fleet:
        quiet = harm_of(fleet, 4, key=KEY)
        before = len(fleet.gateway.log_text())
        attacked = harm_of(fleet, 5, run, key=KEY)
        grown = len(fleet.gateway.log_text()) - before
        if grown > LOG_BYTES_MAX:
            attacked.failed += 1
            attacked.problems.insert(0, f"the log has grown by {grown / 2**20:.1f} MiB")
        return quiet, attacked
