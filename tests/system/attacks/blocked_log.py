"""The gateway's log is a pipe that is full, and nobody reads it."""

from unread_log import UnreadLogFleet
from bystanders import harm_of

WHAT = "nobody reads the gateway's log, a pipe that is full"


def attack():
    with UnreadLogFleet(workers=1) as fleet:
        quiet = harm_of(fleet, 4)
        fleet.block()
        attacked = harm_of(fleet, 8)
        if attacked.failed:
            fleet.gateway.kill()  # it would wait for its log
        return quiet, attacked
