"""The first request after connections were made, beside later ones: TCP's window opens with use, and hops are kept warm in idle time."""

import time

REST_S = 10
WARMING = 3

HEAD = f"stages  Mbit/s  rtt  prompt | first request at once  after {REST_S} s of rest | later ones  after {REST_S} s of rest"


def first_seconds(fleet, rows):
    return fleet.ask(fleet.prompt(rows)).first_s


def measure(make_fleet, where):
    """Seconds: (first request at once, first after a rest, later, later after a rest). A first request needs connections of its own, so a fleet."""
    with make_fleet() as fleet:
        at_once = first_seconds(fleet, where.rows)
        for _ in range(WARMING):
            first_seconds(fleet, where.rows)
        later = first_seconds(fleet, where.rows)
        time.sleep(REST_S)
        later_rested = first_seconds(fleet, where.rows)
    with make_fleet() as fleet:
        time.sleep(REST_S)
        return at_once, first_seconds(fleet, where.rows), later, later_rested


def row(where, seconds):
    w = where
    return f"{w.stages:6} {w.rate:7g} {w.round_trip:4g} {w.rows:7} | {seconds[0]:20.3f}s {seconds[1]:18.3f}s | {seconds[2]:9.3f}s {seconds[3]:18.3f}s"
