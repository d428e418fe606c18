"""A slow worker says that it is the fastest by far, so that it gets nearly all layers."""

from bystanders import harm_of
from forging import ForgingFleet
from programs import build_folder

WHAT = "one of two workers, a fourth as fast as the other, claims to be ten times as fast: tokens after 12 s of it, beside an honest fleet's"

SLOWDOWN, BOASTS = 4, 40
FLAGS = ["--rebalance-delay-ms", "1000"]


def attack():
    slow = {1: [build_folder() / "longhaul-worker", "--slowdown", str(SLOWDOWN)]}
    with ForgingFleet(2, worker_programs=slow, gateway_flags=FLAGS) as fleet:
        quiet = harm_of(fleet, 4, chats=0)
    with ForgingFleet(2, boasts={1: BOASTS}, worker_programs=slow, gateway_flags=FLAGS) as fleet:
        harm_of(fleet, 12, chats=0)
        return quiet, harm_of(fleet, 4, chats=0)
