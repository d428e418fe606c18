"""Strangers begin TLS handshakes, which cost the server a signature each and them nothing."""

from bystanders import harm_of
from flood import Flood, client_hello
from secure_fleet import SecureFleet

WHAT = "64 connections of strangers begin TLS handshakes at the fleet's port, and again at once"


def attack():
    with SecureFleet(workers=1) as fleet:
        quiet = harm_of(fleet, 8)
        attacked = harm_of(fleet, 8, Flood(fleet.fleet_port, 64, client_hello()))
        return quiet, attacked
