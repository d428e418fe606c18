"""Connections that have asked once and then rest fill the places of the public port, and come back when they are closed."""

import multiprocessing
import os
import resource
import selectors
import socket
import tempfile

from api_keys import key_line, write_private
from bystanders import harm_of
from fleet import Fleet
from programs import wait_until

WHAT = "3,700 connections of a stranger that have asked for /livez rest; beside them a client with a key"
COUNT = 3700
PROBE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def rest(port, is_full, is_over):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, COUNT + 100), limit))
    selector = selectors.DefaultSelector()

    def connect():
        try:
            attacker = socket.create_connection(("127.0.0.1", port), 5)
            attacker.sendall(PROBE)
            selector.register(attacker, selectors.EVENT_READ)
        except OSError:
            pass

    for number in range(COUNT):
        connect()
    is_full.set()
    while not is_over.is_set():
        for key, _ in selector.select(0.1):
            try:
                data = key.fileobj.recv(65536)
            except OSError:
                data = b""
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()
        for _ in range(min(100, COUNT - len(selector.get_map()))):
            connect()


def attack():
    with tempfile.TemporaryDirectory() as folder:
        keys = write_private(os.path.join(folder, "keys"), key_line("client", "key-of-the-client"))
        with Fleet(workers=1, gateway_flags=["--api-key-file", keys]) as fleet:
            quiet = harm_of(fleet, 4, key="key-of-the-client")
            context = multiprocessing.get_context("fork")
            is_full, is_over = context.Event(), context.Event()
            attackers = context.Process(target=rest, args=(fleet.port, is_full, is_over))
            attackers.start()
            try:
                wait_until(is_full.is_set, "all attackers are connected")
                attacked = harm_of(fleet, 8, key="key-of-the-client", timeout_s=5)
            finally:
                is_over.set()
                attackers.join()
        return quiet, attacked
