"""A key that may ask five times a minute sends forty forms, each of which is refused after it has been compiled. Prints the processor time of the gateway."""

import os
import pathlib
import sys
import tempfile

from api_keys import key_line, write_private
from bystanders import harm_of
from fleet import Fleet
from raw_http import ask
from slow_forms import slow_body

WHAT = "a key with five requests a minute sends forty forms that are refused"
FORMS = 40


def cpu_s(program):
    """That it has used, of all its threads."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{program.pid}/task").iterdir()) / 1e9


def attack():
    def run(_):
        statuses = [ask(fleet.port, "POST", "/v1/completions", slow_body(n), (("Authorization", "Bearer mallory"),)).status for n in range(FORMS)]
        print(f"  refused_forms: {statuses.count(400)} forms were read, {statuses.count(429)} were not", file=sys.stderr)

    with tempfile.TemporaryDirectory(prefix="longhaul-keys-") as folder:
        path = write_private(os.path.join(folder, "keys"), key_line("mallory", "mallory", "requests-per-minute=5") + key_line("alice", "alice"))
        with Fleet(workers=1, gateway_flags=["--api-key-file", path]) as fleet:
            before = cpu_s(fleet.gateway)
            quiet = harm_of(fleet, 6, key="alice")
            between = cpu_s(fleet.gateway)
            attacked = harm_of(fleet, 6, run, key="alice")
            print(f"  refused_forms: the gateway used {between - before:.1f} s of processor before, {cpu_s(fleet.gateway) - between:.1f} s beside it", file=sys.stderr)
            return quiet, attacked
