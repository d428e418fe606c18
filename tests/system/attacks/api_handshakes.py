"""Handshakes at the API's TLS that are never completed: one hello is sent again and again, by someone who goes as soon as there is an answer, which has
cost the gateway a signature; and some that stop in the midst of the hello."""

import multiprocessing
import selectors
import socket
import ssl
import tempfile
import time
import urllib.error
import urllib.request

from bystanders import harm_of
from certificates import issue_server, make_ca
from fleet import Fleet
from programs import PATIENCE_S, cpu_seconds, wait_until

FLOODERS, RATE, HELD = 8, 400, 100
WHAT = f"a stranger at the API's TLS begins {RATE} handshakes a second, and holds {HELD} half ones"
STRANGER = "127.0.0.2"


class SecureFleet(Fleet):
    """Its API speaks TLS."""

    def __init__(self, folder, **how):
        super().__init__(gateway_flags=["--api-tls-cert", f"{folder}/api.crt", "--api-tls-key", f"{folder}/api.key"], **how)
        self.tls = ssl.create_default_context(cafile=f"{folder}/ca.crt")

    def start_gateway(self):
        super().start_gateway()
        self.url = f"https://localhost:{self.port}"

    def get(self, path, timeout=PATIENCE_S):
        try:
            with urllib.request.urlopen(self.url + path, timeout=timeout, context=self.tls) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""


def hello():
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()


def flood(port, first, count, is_over):
    """At most so many a second, and at a time. `count`: those that are over."""
    selector = selectors.DefaultSelector()

    def begin():
        attacker = socket.socket()
        attacker.setblocking(False)
        attacker.bind((STRANGER, 0))
        attacker.connect_ex(("127.0.0.1", port))
        selector.register(attacker, selectors.EVENT_WRITE)

    def proceed(key, events):
        try:
            if events & selectors.EVENT_WRITE:
                key.fileobj.send(first)
                selector.modify(key.fileobj, selectors.EVENT_READ)
                return
            key.fileobj.recv(65536)
        except OSError:
            pass
        selector.unregister(key.fileobj)
        key.fileobj.close()
        count.value += 1

    started = time.monotonic()
    while not is_over.is_set():
        wanted = (time.monotonic() - started) * RATE
        while len(selector.get_map()) < FLOODERS and count.value + len(selector.get_map()) < wanted:
            begin()
        for key, events in selector.select(0.01):
            proceed(key, events)


def hold(port, first):
    """Connections that have sent a half."""
    held = []
    for _ in range(HELD):
        held.append(socket.create_connection(("127.0.0.1", port), 5, (STRANGER, 0)))
        held[-1].sendall(first[:len(first) // 2])
    return held


def attack():
    with tempfile.TemporaryDirectory() as folder:
        make_ca(folder)
        issue_server(folder, "api")
        with SecureFleet(folder, workers=1) as fleet:
            quiet = harm_of(fleet, 5, tls=fleet.tls)
            context = multiprocessing.get_context("fork")
            is_over, count, first = context.Event(), context.Value("q", 0), hello()
            flooder = context.Process(target=flood, args=(fleet.port, first, count, is_over))
            held = hold(fleet.port, first)
            flooder.start()
            try:
                wait_until(lambda: count.value > 800, "the flood is under way")
                before, begin_s = count.value, cpu_seconds(fleet.gateway.pid)
                attacked = harm_of(fleet, 8, tls=fleet.tls)
                attacked.problems.append(f"{(count.value - before) / 8:.0f} handshakes a second, for which and for all else the gateway took "
                                         f"{(cpu_seconds(fleet.gateway.pid) - begin_s) / 8:.2f} of a core")
            finally:
                is_over.set()
                flooder.join()
                for connection in held:
                    connection.close()
        return quiet, attacked
