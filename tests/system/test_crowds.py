"""More connections and more bytes than the public port has room for: who waits for his client makes room, who is served stays, newcomers are served.
Over the scripted engine (tests/gateway)."""

import json
import os
import pathlib
import socket
import ssl
import sys
import tempfile
import time
import unittest

from api_keys import key_line, write_private
from certificates import issue_server, make_ca
from programs import Program, build_folder, free_port, need_file, need_model, run_tests, wait_until
from raw_http import Connection, ask, chunks, request
from test_http_raw import GET, POST, Gateway, GatewayTest, SecureConnection, completion_body

STRANGER = "127.0.0.2"
PROBE = request("GET", "/livez")


class Crowds(unittest.TestCase):
    """64 places, of which 56 may be taken by those who wait for more than a second."""

    flags = ("--connections", "64", "--header-ms", "20000", "--body-ms", "20000")

    def setUp(self):
        self.gateway = Gateway(*self.flags)
        self.addCleanup(self.gateway.stop)
        self.port = self.gateway.port

    def come(self, data, count, source=STRANGER):
        connections = [Connection(self.port, source=source) for _ in range(count)]
        for connection in connections:
            self.addCleanup(connection.close)
            connection.send(data)
        return connections

    def rest(self, count):
        """So many that are left of those who have asked once."""
        connections = self.come(PROBE, count)
        self.assertTrue(all(connection.reply() for connection in connections))
        return connections

    def closed(self, connections):
        """Those whose other side has closed, or said something."""
        for connection in connections:
            connection.socket.settimeout(0)
        return [connection for connection in connections if self.has_news(connection)]

    def has_news(self, connection):
        try:
            connection.more()
        except BlockingIOError:
            return False
        return True

    def probe(self):
        return ask(self.port, "GET", "/livez").status == 200

    def test_who_rests_makes_room(self):
        """Those of the address that has most; without a word."""
        resting = self.rest(55)
        with Connection(self.port) as kept:
            kept.send(PROBE)
            self.assertEqual(kept.reply().status, 200)
            closed = []

            def is_done():
                self.assertTrue(self.probe())
                closed.extend(self.closed([one for one in resting if one not in closed]))
                return closed

            wait_until(is_done, "one of those that rest is closed")
            self.assertEqual(closed[0].pending, b"")
            for _ in range(100):
                self.assertTrue(self.probe())
            kept.send(PROBE)
            self.assertEqual(kept.reply().status, 200)

    def test_who_comes_back_at_once_gains_nothing(self):
        """A crowd that always takes all places that it is given, and one who asks beside it."""
        crowd = self.rest(56)
        for _ in range(200):
            self.assertTrue(self.probe())
            for connection in self.closed(crowd):
                crowd.remove(connection)
                crowd += self.come(PROBE, 1)

    def test_who_says_nothing_is_told_why(self):
        served = Connection(self.port)
        self.addCleanup(served.close)
        served.send(request("POST", "/v1/completions", completion_body("@@interval_ms=100 text=" + "a" * 20, stream=True)))
        wait_until(lambda: self.gateway.counts()["running"] == 1, "it is served")
        silent = [self.come((b"", GET, POST + b"Content-Length: 100\r\n\r\n{")[number % 3], 1)[0] for number in range(55)]
        told = []

        def is_done():
            self.assertTrue(self.probe())
            told.extend(self.closed([one for one in silent if one not in told]))
            return told

        wait_until(is_done, "one of those that wait is told why it goes")
        reply = told[0].reply()
        self.assertEqual((reply.status, reply.headers["retry-after"]), (503, "1"))
        body = served.reply().body
        self.assertEqual("".join(c["choices"][0]["text"] for c in chunks(body)), "a" * 20)

    def test_streams_leave_places(self):
        """However many of them the engine takes: one too many is told to come again, and probes are answered."""
        stream = completion_body("@@interval_ms=500 text=" + "a" * 2000, stream=True, max_tokens=2000)
        asked = self.come(request("POST", "/v1/completions", stream), 58)
        statuses = [connection.head() for connection in asked]
        self.assertTrue(32 < [status for status, _ in statuses].count(200) <= 48, statuses)
        self.assertTrue(all("retry-after" in headers for status, headers in statuses if status != 200), statuses)
        for _ in range(100):
            self.assertTrue(self.probe())


class KnownOnes(Crowds):
    """With keys."""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="longhaul-crowds-"))
        keys = write_private(os.path.join(folder, "keys"), key_line("known", "key-that-is-known"))
        self.flags = (*Crowds.flags, "--api-key-file", keys)
        super().setUp()

    # These ask without a key.
    test_who_says_nothing_is_told_why = None
    test_streams_leave_places = None

    def test_strangers_have_no_part_in_their_places(self):
        """Though these rest longest, and are as many from the same address."""
        known = self.come(request("GET", "/v1/models", headers=[("Authorization", "Bearer key-that-is-known")]), 28)
        self.assertEqual({connection.reply().status for connection in known}, {200})
        strangers = self.rest(28)
        closed = []

        def is_done():
            self.assertTrue(self.probe())
            closed.extend(self.closed([one for one in strangers if one not in closed]))
            strangers.extend(self.come(PROBE, 1))
            return len(closed) >= 20

        wait_until(is_done, "strangers make room")
        self.assertEqual(self.closed(known), [])


def is_served(port, source="127.0.0.1", host="127.0.0.1", name="localhost"):
    """A connection that has been served, and rests; None: it was closed."""
    connection = Connection(port, source=source, host=host)
    try:
        connection.send(request("GET", "/livez", host=name))
    except OSError:
        return None
    reply = connection.reply()
    return connection if reply and reply.status == 200 else connection.close()


class OneAddress(GatewayTest):
    flags = ("--connections-per-address", "5")
    way = {}

    def test_so_many_of_one_address(self):
        held = [is_served(self.port, **self.way) for _ in range(5)]
        self.assertNotIn(None, held)
        self.assertIsNone(is_served(self.port, **self.way))
        others = [is_served(self.port, source=f"127.0.0.{host}") for host in (2, 3)]
        self.assertNotIn(None, others)
        held.pop().close()
        held.append(wait_until(lambda: is_served(self.port, **self.way), "there is a place again"))
        for connection in (*held, *others):
            connection.close()


class AnyAddress(OneAddress):
    """Listens on IPv6, where IPv4 addresses come as mapped ones."""

    flags = (*OneAddress.flags, "--listen", "[::]:0")

    def test_both_kinds(self):
        with is_served(self.port, source="::1", host="::1", name="[::1]") as other, is_served(self.port, source="127.0.0.9"):
            self.assertIsNotNone(other)


class SixthVersion(OneAddress):
    """Its loopback address is one that answers for loopback names alone."""

    flags = (*OneAddress.flags, "--listen", "[::1]:0")
    way = {"source": "::1", "host": "::1"}
    test_so_many_of_one_address = None

    def test_names(self):
        for name, status in (("[::1]", 200), (f"[::1]:{self.port}", 200), ("localhost", 200), ("[2001:db8::1]", 421), ("evil.example", 421)):
            with Connection(self.port, **self.way) as connection:
                connection.send(request("GET", "/livez", host=name))
                self.assertEqual(connection.reply().status, status, name)


class Handshakes(unittest.TestCase):
    """With TLS."""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="longhaul-crowds-"))
        make_ca(folder)
        issue_server(folder, "api")
        self.folder = folder
        self.gateway = Gateway("--api-tls-cert", f"{folder}/api.crt", "--api-tls-key", f"{folder}/api.key")
        self.addCleanup(self.gateway.stop)

    def hello(self):
        outgoing = ssl.MemoryBIO()
        client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            client.do_handshake()
        return outgoing.read()

    def is_answered(self, hello):
        with Connection(self.gateway.port, source=STRANGER) as connection:
            try:
                connection.send(hello)
            except OSError:
                return False
            return connection.more()

    def test_who_leaves_them_is_stopped(self):
        """An address has 512, and gets eight back in a second; another is served as before."""
        hello = self.hello()
        begun = time.monotonic()
        answered = 0
        while self.is_answered(hello):
            answered += 1
            self.assertLess(answered, 2000)
        self.assertTrue(512 <= answered <= 513 + 8 * (time.monotonic() - begun), answered)
        self.assertIn("too many TLS handshakes without a request: closed peer=127.0.0.2:", self.gateway.program.log_text())
        for _ in range(5):
            with SecureConnection(self.gateway.port, self.folder) as connection:
                connection.send(PROBE)
                self.assertEqual(connection.reply().status, 200)


class FewDescriptors(unittest.TestCase):
    """The gateway has room for half of its descriptors in connections, and says so; more of them make room, as always."""

    def test_connections_follow(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="longhaul-few-"))
        port, fleet_port = free_port(), free_port()
        program = need_file(build_folder() / "longhaul-gateway", "longhaul-gateway is not built")
        gateway = Program("gateway", ["prlimit", "--nofile=200:200", program, "--model", need_model(), "--listen", f"127.0.0.1:{port}", "--fleet-listen",
                                      f"127.0.0.1:{fleet_port}", "--metrics-listen", "off"], folder)
        self.addCleanup(gateway.stop)
        wait_until(lambda: "descriptors are limited to 200: room for 100 connections, not --max-connections 4096" in gateway.log_text(), "it says so")

        def is_there():
            try:
                return is_served(port)
            except ConnectionRefusedError:
                return None

        crowd = [wait_until(is_there, "it listens")]
        for _ in range(250):
            crowd.append(is_served(port, source=STRANGER))
            self.assertIsNotNone(crowd[-1])
        for connection in crowd:
            connection.close()


class ManyBodies(GatewayTest):
    flags = ("--bodies-bytes", "400000")

    def is_read(self, connection):
        """Whether the gateway has read all that was sent: nothing waits in the kernel on either side."""
        ends = {connection.socket.getsockname()[1], self.port}
        waiting = []
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, remote, _, queues = line.split()[:5]
            if {int(end.split(":")[1], 16) for end in (local, remote)} == ends:
                waiting += [int(queue, 16) for queue in queues.split(":")]
        return not any(waiting)

    def come_nearly(self, body):
        connection = Connection(self.port)
        connection.send(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-1])
        wait_until(lambda: self.is_read(connection), "the gateway has read a body but for its end")
        return connection

    def test_all_of_them_are_bounded(self):
        """There is room for three, which are nearly there; a fourth is refused while they come in, and then has the place of the one that stands still
        longest. The others are served."""
        body = json.dumps(completion_body("@@text=a", user="x" * 90000)).encode()
        coming = [self.come_nearly(body) for _ in range(3)]

        def is_served():
            reply = self.ask("POST", "/v1/completions", body)
            self.assertIn(reply.status, (200, 503), reply.body)
            return reply.status == 200

        wait_until(is_served, "the fourth has found room")
        reply = coming[0].reply()
        self.assertEqual(reply.status, 408)
        self.assertIn("did not come fast enough while others needed the memory", reply.error()["message"])
        for connection in coming[1:]:
            connection.send(body[-1:])
            self.assertEqual(connection.reply().status, 200)
        for connection in coming:
            connection.close()

    def test_small_ones_find_room(self):
        large = json.dumps(completion_body("@@text=a", user="x" * 110000)).encode()
        coming = [self.come_nearly(large) for _ in range(3)]
        small = json.dumps(completion_body("@@text=a", user="x" * 15000)).encode()
        self.assertEqual(self.ask("POST", "/v1/completions", small).status, 200)
        for connection in coming:
            connection.send(large[-1:])
            self.assertEqual(connection.reply().status, 200)
            connection.close()

    def test_their_memory_is_given_back(self):
        body = json.dumps(completion_body("@@text=a", user="x" * 90000)).encode()
        for _ in range(6):
            with self.come_nearly(body) as connection:
                connection.send(body[-1:])
                self.assertEqual(connection.reply().status, 200)
        self.assertEqual(self.ask("POST", "/v1/completions", body).status, 200)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
