"""Starts a gateway and two workers with a real model and runs the tests of this folder, of evaluation/ and of agents/ against it, each client in a process
of its own, by the Python that has it. Started by tests/clients/run; arguments: the Python of each folder, and the clients to run."""

import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "system"))

from fleet import Fleet
from raw_http import ask

PATIENCE_S = 1800
FOLDERS = (HERE, HERE / "evaluation", HERE / "agents")


def print_left_out(log, told):
    """What the gateway's log says that it left out of requests, each kind once."""
    for kind, route in re.findall(r'left out kind="(.*?)" route=(\S+)', log):
        if (kind, route) not in told:
            print(f"   left out: {kind} ({route})", flush=True)
            told.add((kind, route))


def run_client(python, path, environment):
    began = time.monotonic()
    print(f"== {path.stem.removeprefix('test_')}", flush=True)
    status = subprocess.run([python, path], env=environment, timeout=PATIENCE_S).returncode
    print(f"   {time.monotonic() - began:.0f} s", flush=True)
    return status == 0


def main(*arguments):
    pythons, names = arguments[:len(FOLDERS)], arguments[len(FOLDERS):]
    known = {path.stem.removeprefix("test_"): (python, path) for python, folder in zip(pythons, FOLDERS) for path in sorted(folder.glob("test_*.py"))}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    with Fleet(workers=2) as fleet:
        model = ask(fleet.port, "GET", "/v1/models").json()["data"][0]["id"]
        environment = {**os.environ, "LONGHAUL_CLIENTS_URL": f"{fleet.url}/v1", "LONGHAUL_CLIENTS_MODEL": model}
        failed, told = [], set()
        for name in names:
            failed += [] if run_client(*known[name], environment) else [name]
            print_left_out(fleet.gateway.log_text(), told)
    if failed:
        sys.exit(f"FAILED: {', '.join(failed)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
