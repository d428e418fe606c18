"""Traces of long answers, whose rendering takes tens of milliseconds each, asked for by many connections at once."""

import json
import os
import tempfile
import threading
import urllib.request

from api_keys import key_line, write_private
from bystanders import harm_of
from fleet import Fleet
from raw_http import Connection

WHAT = "32 connections of a key with `admin` ask for the trace of a long answer, again and again"
COUNT = 32


def ask_on(port, name, is_over):
    request = f"GET /trace/{name} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-of-the-attacker\r\n\r\n"
    while not is_over.is_set():
        try:
            with Connection(port) as attacker:
                while not is_over.is_set():
                    attacker.send(request)
                    attacker.reply()
        except (OSError, AssertionError):
            pass
        is_over.wait(0.1)


def answer_of(fleet):
    """Its id: a token a step."""
    body = json.dumps({"prompt": "Once", "max_tokens": 400, "ignore_eos": True}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer key-of-the-attacker"}
    with urllib.request.urlopen(urllib.request.Request(fleet.url + "/v1/completions", body, headers), timeout=120) as answer:
        return json.load(answer)["id"]


def run(port, name):
    def attack(is_over):
        attackers = [threading.Thread(target=ask_on, args=(port, name, is_over)) for _ in range(COUNT)]
        for attacker in attackers:
            attacker.start()
        for attacker in attackers:
            attacker.join()

    return attack


def attack():
    with tempfile.TemporaryDirectory() as folder:
        lines = key_line("client", "key-of-the-client") + key_line("attacker", "key-of-the-attacker", "admin")
        keys = write_private(os.path.join(folder, "keys"), lines)
        with Fleet(workers=1, gateway_flags=["--api-key-file", keys, "--traces", "4096"]) as fleet:
            name = answer_of(fleet)
            quiet = harm_of(fleet, 4, key="key-of-the-client")
            attacked = harm_of(fleet, 10, run(fleet.port, name), key="key-of-the-client")
        return quiet, attacked
