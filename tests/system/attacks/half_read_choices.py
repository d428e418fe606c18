"""A choice that no vocabulary can write fails where its automaton begins, three times in a row."""

from bystanders import harm_of
from fleet import Fleet
from raw_http import ask

WHAT = "a client asks for a choice that no token can begin"


def attack():
    def run(is_over):
        while not is_over.is_set():
            try:
                ask(fleet.port, "POST", "/v1/completions", {"prompt": "x", "max_tokens": 1, "guided_choice": ["\u0004"]})
            except OSError:
                pass
            is_over.wait(0.1)

    with Fleet(workers=1) as fleet:
        quiet = harm_of(fleet, 4)
        attacked = harm_of(fleet, 4, run)
        if not fleet.gateway.is_running():  # the harm says so
            fleet.fair_ends = {*fleet.fair_ends, fleet.gateway.process.returncode}
        return quiet, attacked
