"""Clients send random requests to all routes, odd in their bodies and in their HTTP."""

import itertools
import time

from bystanders import harm_of
from fleet import Fleet
from random_clients import Clients, schemas_of

WHAT = "six clients send random requests"
SECONDS = 8
SEED = 5


def attack():
    def run(is_over):
        Clients(fleet.port, SEED, itertools.takewhile(lambda _: not is_over.is_set(), itertools.count()), time.monotonic() + SECONDS, schemas).run()

    with Fleet(workers=1, gateway_flags=["--context", "128", "--request-timeout", "10"]) as fleet:
        schemas = schemas_of(fleet.port)
        quiet = harm_of(fleet, 4)
        attacked = harm_of(fleet, SECONDS, run)
        if not fleet.gateway.is_running():
            fleet.fair_ends = {*fleet.fair_ends, fleet.gateway.process.returncode}
        return quiet, attacked
