"""The last worker's results are forged: tokens that there are not, wrong positions, log probabilities that are no numbers."""

from bystanders import harm_of
from forging import ForgingFleet

WHAT = "the last of two workers, either of which could serve alone, forges its results"


def attack():
    def run(is_over):
        forger = fleet.forgers[fleet.last_worker()]
        forgeries = ["token", "position", "nan", "garbled"]
        while not is_over.wait(0.5):
            forger.forge_all(forgeries[forger.forged % len(forgeries)])

    with ForgingFleet(2) as fleet:
        quiet = harm_of(fleet, 5)
        return quiet, harm_of(fleet, 10, run)
