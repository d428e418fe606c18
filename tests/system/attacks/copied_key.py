"""Whoever has copied a worker's key renews its certificate again and again, while the worker serves with it."""

from bystanders import harm_of
from joined_fleet import JoinedFleet
from membership_attacks import StolenKey

WHAT = "a copy of a worker's key asks for renewals without a pause"


def attack():
    with JoinedFleet(workers=1) as fleet:
        stolen = StolenKey(fleet.state_folder("worker-1"))
        quiet = harm_of(fleet, 4)
        attacked = harm_of(fleet, 6, lambda is_over: stolen.renew_again_and_again(fleet.fleet_port, is_over))
        return quiet, attacked
