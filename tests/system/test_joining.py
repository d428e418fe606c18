"""A machine joins with one line: the real programs, from the token to the answer, and every way in which that goes wrong."""

import base64
import contextlib
import datetime
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

from joining import JOIN_ALPN, LOOPBACK, OwnFleet
from programs import PATIENCE_S, Program, build_folder, free_port, is_sanitized, run_tests, slowness, wait_until
from shifted_clock import DAY_S, ShiftedClock
from stream import Stream

PROMPT = "A line that joins three machines"
# What a client sends until its request begins is some 500 bytes, its request as much again and more.
HANDSHAKE_BYTES = 900


def at(log_line):
    return datetime.datetime.fromisoformat(log_line.split()[0].replace("Z", "+00:00"))


class Worker:
    """One machine's worth of state, and the program on it."""

    def __init__(self, test, folder, name):
        self.test, self.name = test, name
        self.state = pathlib.Path(folder) / f"{name}-state"
        self.home = pathlib.Path(folder) / name
        self.home.mkdir(exist_ok=True)
        self.program = None

    def command(self, words, environment=()):
        return ["env", f"HOME={self.home}", "XDG_CACHE_HOME=", *environment, build_folder() / "longhaul-worker", *words, "--state-dir", self.state,
                "--listen-tls", f"{LOOPBACK}:0", "--threads", "1"]

    def start(self, *words, environment=()):
        """With the words of a token's line, or none."""
        self.seen = len(self.log())
        self.program = Program(self.name, self.command(words, environment), self.home)
        self.test.addCleanup(self.end)
        return self

    def end(self):
        if self.program and self.program.is_running():
            self.program.kill()
        if self.program and not self.program.log.closed:
            self.program.process.stdout.close()
            self.program.log.close()

    def log(self):
        path = self.home / f"{self.name}.log"
        return path.read_text() if path.exists() else ""

    def says(self, words):
        """Waits for it in the log of the present start."""
        def has_said():
            text = self.log()[self.seen:]
            if words not in text and not self.program.is_running():
                raise AssertionError(f"{self.name} has ended without \"{words}\":\n{text}")
            return words in text
        wait_until(has_said, f"{self.name} says \"{words}\"")
        return self

    def is_registered(self):
        return self.says("registered with the gateway")

    def fails(self, *words, environment=()):
        """What it says as it ends; no traceback of a sanitizer, no secret."""
        done = subprocess.run([str(word) for word in self.command(words, environment)], capture_output=True, text=True, timeout=PATIENCE_S)
        self.test.assertIn(done.returncode, (1, 2), done.stderr)
        return done.stderr.splitlines()[-1]


class Joined(unittest.TestCase):
    quickly_set_up = True

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="longhaul-join-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def start_fleet(self, *flags, environment=()):
        self.fleet = OwnFleet(self.folder, flags, environment)
        self.addCleanup(self.fleet.stop)
        return self.fleet

    def line(self, *flags, site="office"):
        """The words behind longhaul-worker of a line that was pasted."""
        return self.fleet.run("token", "--site", site, *flags).split()[1:]

    def worker(self, name):
        return Worker(self, self.folder, name)

    def wait_ready(self):
        def is_ready():
            try:
                with urllib.request.urlopen(f"http://{LOOPBACK}:{self.fleet.api_port}/health", timeout=10) as answer:
                    return answer.status == 200
            except OSError:
                return False
        wait_until(is_ready, "the chain is ready")

    def answer(self, tokens=24):
        with Stream(self.fleet.api_port, PROMPT, tokens) as stream:
            stream.finish()
        self.assertEqual((stream.error, stream.is_done), (None, True))
        return stream


class Life(Joined):
    def test_one_line_makes_a_machine_a_member(self):
        self.start_fleet("--workers", "3")
        workers = [self.worker(f"site-{number}").start(*self.line(site=f"site{number}"), "--name", f"site-{number}") for number in range(3)]
        for worker in workers:
            worker.is_registered()
            self.assertIn("the gateway reaches this worker", worker.log())
            self.assertNotIn("lh1.", worker.log() + str(worker.program.process.args[-1]))
        self.wait_ready()
        text = self.answer().text
        self.assertEqual(self.fleet.run("members").count(" good "), 3)
        for worker in workers:
            lines = worker.log().splitlines()
            joined, registered = (next(line for line in lines if words in line) for words in ("membership: joined", "registered"))
            print(f"{worker.name}: from its certificate to \"registered\" {(at(registered) - at(joined)).total_seconds() * 1000:.0f} ms")
            worker.end()
        for worker in workers:
            worker.start().is_registered()
        self.wait_ready()
        self.assertEqual(self.answer().text, text)

    def test_a_restart_with_the_same_line_asks_for_nothing(self):
        self.start_fleet()
        worker, words = self.worker("office-1"), self.line("--name", "office-1")
        worker.start(*words).is_registered().end()
        certificate = (worker.state / "current" / "certificate.pem").read_text()
        worker.start(*words).is_registered()
        self.assertIn("has joined by this token before", worker.log())
        self.assertEqual((worker.state / "current" / "certificate.pem").read_text(), certificate)
        self.assertIn("another worker uses it", self.worker("office-1").fails())

    def test_certificates_are_renewed_under_streams(self):
        self.start_fleet("--certificate-life", f"{12 * min(slowness(), 4)}s")
        worker = self.worker("office-1").start(*self.line("--name", "office-1")).is_registered()
        self.wait_ready()
        text, gap = self.answer(200).text, 0
        while worker.log().count("the certificate is renewed") < 2:
            stream = self.answer(200)
            self.assertEqual(stream.text, text)
            gap = max(gap, *stream.gaps)
        print(f"the longest pause between tokens while certificates were renewed: {gap * 1000:.0f} ms")
        self.assertNotIn("is not renewed", worker.log())
        self.assertEqual(self.fleet.gateway.log_text().count("chain is ready"), 1, "no connection was lost")
        worker.end()
        worker.start().is_registered()

    def test_another_ca_follows_under_a_worker(self):
        self.start_fleet()
        worker = self.worker("office-1").start(*self.line("--name", "office-1")).is_registered()
        self.wait_ready()
        text = self.answer().text
        self.fleet.run("rotate-ca", "--overlap", "1h")
        worker.says("the fleet trusts other CAs now").says("the certificate is renewed")
        wait_until(lambda: self.fleet.run("members").count("\nCA ") == 1, "the old CA is gone")
        self.assertEqual(self.answer().text, text)
        wait_until(lambda: (worker.state / "current" / "trust.pem").read_text().count("BEGIN") == 1, "the worker has forgotten it, too")
        worker.end()
        worker.start().is_registered()

    def test_a_revoked_worker_comes_back_with_another_line(self):
        self.start_fleet()
        worker = self.worker("office-1").start(*self.line("--name", "office-1")).is_registered()
        self.fleet.run("revoke", "worker", "office-1")
        worker.says("the gateway has revoked this worker's certificate").end()
        worker.start(*self.line("--name", "office-1")).is_registered()

    def test_a_revoked_worker_says_it_once_and_asks_more_and_more_seldom(self):
        self.start_fleet()
        relay = Relay(self.fleet.port)
        self.addCleanup(relay.close)
        _, _, token = self.line("--name", "office-1")
        worker = self.worker("office-1").start("join", relay.address, token).is_registered()
        self.fleet.run("revoke", "worker", "office-1")
        worker.says("the gateway has revoked this worker's certificate")
        before = len(relay.sockets)
        threading.Event().wait(11)  # another absence of the gateway would be told again after 10 s
        # after 1, 2, 4, 8 s and so on; two sockets for each. It was every half second.
        self.assertLessEqual((len(relay.sockets) - before) // 2, 5)
        self.assertEqual(worker.log().count("has revoked this worker's certificate"), 1, worker.log())

    def test_a_backup_brings_the_fleet_back(self):
        """Copied while it runs. Who has joined before goes on, who has joined since joins again."""
        self.start_fleet()
        early = self.worker("early").start(*self.line("--name", "early")).is_registered()
        self.wait_ready()
        text = self.answer().text
        backup = self.folder / "backup"
        shutil.copytree(self.fleet.state, backup)
        late = self.worker("late").start(*self.line("--name", "late")).is_registered()
        self.fleet.gateway.kill()
        self.fleet.stop()
        shutil.rmtree(self.fleet.state)
        shutil.copytree(backup, self.fleet.state)
        self.fleet.start()
        late.says("the gateway has revoked this worker's certificate").end()
        self.wait_ready()
        self.assertEqual(self.answer().text, text)
        self.assertRegex(self.fleet.run("members"), r"(?m)^early +office +good ")
        late.start(*self.line("--name", "late")).is_registered()
        self.assertRegex(self.fleet.run("members"), r"(?m)^late +office +good ")
        self.assertTrue(early.program.is_running())


class Relay:
    """Between a worker and the gateway, and all that it takes to stop a joining where a test wants it. holds: nothing comes back once the request
    has been sent."""

    def __init__(self, port, holds=False):
        self.port, self.holds = port, holds
        self.listener = socket.create_server((LOOPBACK, 0))
        self.address = f"https://{LOOPBACK}:{self.listener.getsockname()[1]}"
        self.has_come, self.sent = threading.Event(), 0
        self.sockets = [self.listener]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                self.has_come.set()
                self.sockets.append(near)
                if self.port:
                    far = socket.create_connection((LOOPBACK, self.port))
                    self.sockets.append(far)
                    threading.Thread(target=self.carry, args=(near, far, True), daemon=True).start()
                    threading.Thread(target=self.carry, args=(far, near, False), daemon=True).start()

    def carry(self, source, target, is_request):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.sent += len(data) if is_request else 0
                if is_request or not self.holds or self.sent < HANDSHAKE_BYTES:
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self):
        for each in self.sockets:
            each.close()


class Killed(Joined):
    """The worker is killed with no warning; then the same line is pasted again."""

    def setUp(self):
        super().setUp()
        self.start_fleet()

    def relay(self, *arguments, **more):
        relay = Relay(*arguments, **more)
        self.addCleanup(relay.close)
        return relay

    def joins_again(self, worker, words):
        worker.start(*words).is_registered()
        self.assertEqual(self.fleet.run("tokens").count(" 1 of 1 "), 1)
        self.assertFalse((worker.state / "pending.pem").exists())

    def test_before_it_has_asked(self):
        worker, (_, _, token) = self.worker("office-1"), self.line("--name", "office-1")
        relay = self.relay(None)
        worker.start("join", relay.address, token)
        self.assertTrue(relay.has_come.wait(PATIENCE_S))
        self.assertTrue((worker.state / "pending.pem").exists(), "the key is on the disk before anybody hears of it")
        worker.end()
        self.joins_again(worker, ["join", f"https://{LOOPBACK}:{self.fleet.port}", token])

    def test_between_question_and_answer(self):
        worker, (_, url, token) = self.worker("office-1"), self.line("--name", "office-1")
        worker.start("join", self.relay(self.fleet.port, holds=True).address, token)
        wait_until(lambda: " 1 of 1 " in self.fleet.run("tokens"), "the gateway has granted it")
        worker.end()
        self.assertFalse((worker.state / "current").exists())
        self.joins_again(worker, ["join", url, token])

    def test_at_any_other_moment(self):
        for delay_ms in range(0, 130, 10):
            words = self.line("--name", f"office-{delay_ms}")
            worker = self.worker(f"office-{delay_ms}").start(*words)
            threading.Event().wait(delay_ms * slowness() / 1000)
            worker.end()
            worker.start(*words).is_registered().end()
        self.assertEqual(self.fleet.run("members").count(" good "), 13)


class Impostor:
    """A TLS port with a certificate of its own making that says it is the gateway; it writes down what it gets to read."""

    def __init__(self, folder, behind=None, alpn=JOIN_ALPN):
        self.folder = pathlib.Path(folder) / "impostor"
        self.folder.mkdir(exist_ok=True)
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=longhaul CA", "-keyout",
                     "ca.key", "-out", "ca.crt")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=gateway", "-keyout", "leaf.key", "-out", "leaf.csr")
        (self.folder / "leaf.ext").write_text("subjectAltName=URI:longhaul://gateway\n")
        self.openssl("x509", "-req", "-in", "leaf.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-out", "leaf.crt", "-extfile",
                     "leaf.ext")
        chain = (self.folder / "leaf.crt").read_text() + (behind or (self.folder / "ca.crt").read_text())
        (self.folder / "chain.crt").write_text(chain)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.folder / "chain.crt", self.folder / "leaf.key")
        self.context.set_alpn_protocols([alpn])
        self.listener = socket.create_server((LOOPBACK, 0))
        self.address = f"https://{LOOPBACK}:{self.listener.getsockname()[1]}"
        self.plain, self.handshakes = b"", 0
        threading.Thread(target=self.serve, daemon=True).start()

    def openssl(self, *words):
        return subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True).stdout

    def pinned(self, token):
        """The same token, for those who trust this CA."""
        key = self.openssl("x509", "-in", "ca.crt", "-noout", "-pubkey")
        der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=key, capture_output=True, check=True).stdout
        digest = subprocess.run(["openssl", "dgst", "-sha256", "-binary"], input=der, capture_output=True, check=True).stdout
        version, _, number, secret = token.split(".")
        return ".".join((version, base64.urlsafe_b64encode(digest).decode().rstrip("="), number, secret))

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.handshakes += 1
                with contextlib.suppress(OSError), connection, self.context.wrap_socket(connection, server_side=True) as secured:
                    secured.settimeout(20)
                    secured.sendall(b"\0\0\0\4\0\0\0\0\0")  # SETTINGS: the request may come
                    while data := secured.recv(65536):
                        self.plain += data

    def close(self):
        self.listener.close()


class Wrong(Joined):
    def setUp(self):
        super().setUp()
        self.start_fleet()

    def impostor(self, **more):
        impostor = Impostor(self.folder, **more)
        self.addCleanup(impostor.close)
        return impostor

    def test_the_secret_is_for_the_tokens_fleet_alone(self):
        (_, _, token), worker = self.line(), self.worker("office-1")
        impostor = self.impostor()
        said = worker.fails("join", impostor.address, token)
        self.assertIn("its CA has another key. The token's secret was not sent", said)
        own = (self.fleet.state / "trust.pem").read_text()
        behind = self.impostor(behind=own)
        self.assertIn("certificate is not accepted", worker.fails("join", behind.address, token))
        self.assertEqual((impostor.handshakes, impostor.plain, behind.handshakes, behind.plain), (1, b"", 1, b""))

    def test_and_what_it_is_sent_would_be_seen(self):
        impostor, worker = self.impostor(), self.worker("office-1")
        token = impostor.pinned(self.line()[2])
        worker.fails("join", impostor.address, token)
        self.assertIn(token.split(".")[3].encode(), impostor.plain)

    def test_tokens_that_are_no_good(self):
        words, worker = self.line("--name", "office-1"), self.worker("office-1")
        worker.start(*words).is_registered()
        other = self.worker("other")
        self.assertRegex(other.fails(*words), "refuses: .*used as often as it may.*longhaul-gateway token")
        brief = self.line("--ttl", "1s")
        threading.Event().wait(1.1)
        self.assertRegex(other.fails(*brief), "refuses: .*time is over.*longhaul-gateway token")
        revoked = self.line()
        self.fleet.run("revoke", "token", revoked[2].split(".")[2])
        self.assertRegex(other.fails(*revoked), "refuses: .*revoked")
        guessed = self.line()
        self.assertRegex(other.fails(*guessed[:2], guessed[2][:-3] + "AAA"), "refuses: ")
        self.assertIn("was it cut", other.fails(*guessed[:2], guessed[2][:-1]))
        self.assertIn("is no token", other.fails("join", guessed[1], "secret"))
        self.assertIn("two words follow", other.fails("join", guessed[1]))
        self.assertIn("is not https://", other.fails("join", "http://127.0.0.1:1", guessed[2]))

    def test_names_that_are_not_to_be_had(self):
        self.worker("office-1").start(*self.line(), "--name", "office-1").is_registered()
        other = self.worker("other")
        self.assertRegex(other.fails(*self.line(), "--name", "office-1"), "refuses: .*another one with --name")
        self.assertRegex(other.fails(*self.line("--name", "office-2"), "--name", "office-3"), "refuses: ")
        other.start(*self.line(), "--name", "office-2").is_registered().end()
        self.assertIn("has joined as name office-2", other.fails("--name", "office-3"))

    def test_where_no_gateway_answers(self):
        (_, _, token), worker = self.line(), self.worker("office-1")
        port = free_port()
        said = worker.fails("join", f"https://{LOOPBACK}:{port}", token)
        self.assertRegex(said, rf"no gateway answers at {LOOPBACK}:{port}; tried {LOOPBACK}:{port} \(connection refused\).*--fleet-listen")
        self.assertRegex(worker.fails("join", "https://no-such-host.invalid:7100", token), "the name no-such-host.invalid is not found")
        said = worker.fails("join", f"https://{LOOPBACK}:{self.fleet.api_port}", token)
        self.assertRegex(said, r"no gateway answers at .*TLS")
        other = self.impostor(alpn="h2")
        self.assertRegex(worker.fails("join", other.address, other.pinned(token)), "no gateway answers at .*ALPN.*a CA of its own")
        self.assertEqual(other.plain, b"")

    def test_without_joining(self):
        self.assertIn("no worker has joined there yet", self.worker("office-1").fails())

    def test_a_port_that_others_do_not_reach_is_told_at_once(self):
        worker = self.worker("office-1")
        worker.start(*self.line(), "--name", "office-1", "--advertise-tls", f"{LOOPBACK}:{free_port()}").is_registered()
        self.assertRegex(worker.log(), r"the gateway does not reach this worker.*--advertise-tls.*refused")


@unittest.skipIf(is_sanitized(), "a library before the sanitizer's")
class Clocks(Joined):
    def test_a_worker_whose_clock_is_off(self):
        self.start_fleet()
        clock = ShiftedClock(self.folder)
        worker, words = self.worker("office-1"), self.line("--name", "office-1")
        for shift_s, wanted in ((-DAY_S, "set the clock that is wrong"), (DAY_S, "set the one that is wrong")):
            clock.set(shift_s)
            self.assertIn(wanted, worker.fails(*words, environment=clock.environment))
        worker.start(*words).is_registered().end()
        clock.set(31 * DAY_S)
        self.assertIn("join again", worker.fails(environment=clock.environment))
        clock.set(-DAY_S)
        worker.start(environment=clock.environment).says("one of the clocks is wrong").says("certificate is not yet valid").end()
        worker.start().is_registered()

    def test_clocks_that_were_ahead_for_a_while(self):
        """40 days, of the gateway and its workers, while one of them joins."""
        clock = ShiftedClock(self.folder)
        fleet = self.start_fleet("--workers", "1", "--renew-ms", "100", environment=clock.environment)
        before = self.worker("before").start(*self.line("--name", "before"), environment=clock.environment).is_registered()
        self.wait_ready()
        text = self.answer().text
        clock.set(40 * DAY_S)
        wait_until(lambda: "the clock was set" in fleet.gateway.log_text(), "the gateway sees it")
        meanwhile = self.worker("meanwhile").start(*self.line("--name", "meanwhile"), environment=clock.environment).is_registered()
        early = (meanwhile.state / "current" / "certificate.pem").read_text()
        clock.set(0)
        wait_until(lambda: "was issued by a clock that was ahead" in fleet.gateway.log_text(), "the gateway has another certificate")
        wait_until(lambda: (meanwhile.state / "current" / "certificate.pem").read_text() != early, "so has the worker")
        self.assertEqual(self.answer().text, text)
        self.assertNotIn("worker is gone", fleet.gateway.log_text())
        for worker in (before, meanwhile):
            worker.end()
            worker.start(environment=clock.environment).is_registered()
        self.wait_ready()
        self.assertEqual(self.answer().text, text)


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=["Life.test_one_line_makes_a_machine_a_member", "Life.test_certificates_are_renewed_under_streams",
                                                "Killed.test_between_question_and_answer", "Wrong.test_the_secret_is_for_the_tokens_fleet_alone"])
