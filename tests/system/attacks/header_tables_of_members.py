"""The amplified headers of header_tables, by somebody who has a certificate, at a worker's port."""

from bystanders import harm_of
from flood import Flood
from raw_http2 import PREFACE, SETTINGS, amplifying_requests, frame
from secure_fleet import SecureFleet

WHAT = "a member sends a worker requests of 16 KB that mean 64 MB of headers, on four connections"


def attack():
    with SecureFleet(workers=1) as fleet:
        port = int(fleet.worker_state("worker-1")["addresses"]["tls"].rpartition(":")[2])
        words = PREFACE + frame(SETTINGS) + amplifying_requests(200)
        quiet = harm_of(fleet, 6)
        attacked = harm_of(fleet, 6, Flood(port, 4, words, identity=fleet.identity_files("gateway"), drains=True))
        return quiet, attacked
