"""A schema of some 600 bytes takes a tenth of a second to compile, and eight connections send one after the other, each another one."""

import itertools
import os
import tempfile
import threading

from api_keys import key_line, write_private
from bystanders import harm_of
from fleet import Fleet
from raw_http import ask
from slow_forms import slow_body

WHAT = "eight connections of one client send small forms that take long to compile"
CONNECTIONS = 8


def attack():
    numbers = itertools.count()

    def send(is_over):
        while not is_over.is_set():
            try:
                ask(fleet.port, "POST", "/v1/completions", slow_body(next(numbers)), (("Authorization", "Bearer mallory"),))
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
            quiet = harm_of(fleet, 5, key="alice")
            return quiet, harm_of(fleet, 8, run, key="alice")
