"""The gateway's side of joining: tokens, certificates, revoking, another CA, and who is let in; by a client that can do everything wrong."""

import concurrent.futures
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from joining import DATA, JOIN_ALPN, LOOPBACK, OwnFleet, Machine, Peer, frame
from programs import free_port, is_sanitized, run_tests, slowness, wait_until

DAY_S = 86400
TOGETHER = 20 if is_sanitized() else 100


class Joining(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="longhaul-joining-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.fleet = OwnFleet(cls.folder)
        cls.addClassCleanup(cls.fleet.stop)

    def machine(self, label, **more):
        return Machine(self.folder, label, **more)

    def member(self, label):
        machine = self.machine(label)
        self.assertEqual(machine.join(self.fleet.port, self.fleet.token()), (200, None))
        return machine

    # ---- Tokens ----

    def test_a_machine_joins_and_is_let_in(self):
        machine = self.member("first")
        self.assertEqual((machine.name, machine.site), ("first", "office"))
        self.assertIn("URI:longhaul://worker/first?site=office", machine.text())
        with machine.connect(self.fleet.port) as peer:
            self.assertEqual(peer.request("GET", "/fleet/trust"), (200, machine.trust.read_bytes()))
        self.assertRegex(self.fleet.run("members"), r"(?m)^first +office +good ")
        self.assertRegex(self.fleet.run("tokens"), r"(?m)^[0-9a-f]{16} +used +office +any +1 of 1 ")

    def test_a_token_is_good_for_what_it_says(self):
        port = self.fleet.port
        token = self.fleet.token()
        one = self.machine("one")
        self.assertEqual(one.join(port, token), (200, None))
        self.assertEqual(one.join(port, token), (200, None), "the same key again is the same joining")
        self.assertEqual(self.machine("two").join(port, token), (403, "token_used"))
        self.assertEqual(self.machine("three").join(port, token, secret="A" * 43), (403, "token_unknown"))
        self.assertEqual(self.machine("one-again").join(port, self.fleet.token(), name="one"), (409, "name_taken"))
        self.assertEqual(self.machine("four").join(port, self.fleet.token("--name", "five")), (403, "name_wrong"))
        self.assertEqual(self.machine("six").join(port, self.fleet.token(), name=None), (400, "name_invalid"))
        brief = self.fleet.token("--ttl", "1s")
        time.sleep(1.1)
        self.assertEqual(self.machine("seven").join(port, brief), (403, "token_expired"))
        revoked = self.fleet.token()
        self.fleet.run("revoke", "token", revoked.id)
        self.assertEqual(self.machine("eight").join(port, revoked), (403, "token_revoked"))

    def test_a_token_of_another_fleet_is_unknown_and_has_another_pin(self):
        with tempfile.TemporaryDirectory(prefix="longhaul-joining-") as folder:
            # With a folder for its files no gateway need serve yet.
            words = ["--site", "office", "--state-dir", f"{folder}/state", "--output-dir", f"{folder}/tokens"]
            subprocess.run([self.fleet.program, "token", *words], capture_output=True, check=True)
            line = pathlib.Path(folder, "tokens", "office").read_text(encoding="ascii")
        self.assertRegex(line, r"^longhaul-worker join https://\S+:7100 lh1\.")
        self.assertEqual(len(line.splitlines()), 1)
        other = type(self.fleet.token())(line)
        self.assertNotEqual(other.pin, self.fleet.token().pin)
        self.assertEqual(self.machine("stray").join(self.fleet.port, other), (403, "token_unknown"))

    def test_clocks_a_day_off_are_told(self):
        for behind, words in ((DAY_S, "behind"), (-DAY_S, "ahead of")):
            machine = self.machine("clock")
            status, answer = machine.ask(self.fleet.port, machine.body(self.fleet.token(), time=int(time.time()) - behind))
            self.assertEqual((status, answer["error"]["code"]), (400, "clock_wrong"))
            self.assertRegex(answer["error"]["message"], rf"8\d{{4}} seconds {words}")

    def test_a_request_gets_none_of_the_gateways_names(self):
        machine = self.machine("claims", subject="longhaul gateway", extensions=["subjectAltName=URI:longhaul://gateway,DNS:localhost", "basicConstraints=CA:TRUE"])
        self.assertEqual(machine.join(self.fleet.port, self.fleet.token(), addresses=["localhost", LOOPBACK, "claims.example"]), (200, None))
        text = machine.text()
        self.assertRegex(text, r"URI:longhaul://worker/claims\?site=office, DNS:claims.example\n")
        self.assertIn("CA:FALSE", text)
        self.assertIn("Subject: CN = claims\n", text)

    def test_many_join_at_once(self):
        token = self.fleet.token("--uses", str(TOGETHER))
        machines = [self.machine(f"many-{number}") for number in range(TOGETHER + 1)]

        def join(machine):
            deadline = time.monotonic() + 120 * slowness()
            while True:
                try:
                    outcome = machine.join(self.fleet.port, token)
                except OSError as error:
                    outcome = (0, str(error))
                if outcome[0] not in (0, 429) or time.monotonic() > deadline:
                    return outcome
                time.sleep(0.3)

        with concurrent.futures.ThreadPoolExecutor(TOGETHER + 1) as pool:
            outcomes = list(pool.map(join, machines))
        self.assertEqual(sorted(outcomes), sorted([(200, None)] * TOGETHER + [(403, "token_used")]))
        self.assertTrue(all(machine.is_accepted(self.fleet.port) for machine in machines if machine.name))

    def test_commands_say_what_is_wrong(self):
        for words, status, told in ((["token"], 2, "--site"), (["token", "--site", "a b"], 2, "--site"), (["token", "--site", "x", "--ttl", "1"], 2, "--ttl"),
                                    (["token", "--site", "x", "--ttl", "31d"], 2, "--ttl"), (["token", "--site", "x", "--name", "y", "--uses", "2"], 2, "--uses"),
                                    (["token", "--site", "x", "--address", "host"], 2, "--address"), (["revoke"], 2, "revoke worker NAME"),
                                    (["revoke", "worker"], 2, "revoke worker NAME"), (["revoke", "worker", "nobody"], 1, "nobody"),
                                    (["revoke", "token", "0123456789abcdef"], 1, "0123456789abcdef"), (["rotate-ca", "--overlap", "soon"], 1, "--overlap")):
            with self.subTest(words=words):
                done = self.fleet.command(*words)
                self.assertEqual((done.returncode, done.stdout), (status, ""))
                self.assertIn(told, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        for command in ("tokens", "members", "rotate-ca"):
            done = subprocess.run([self.fleet.program, command, "--state-dir", self.folder / "nowhere"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("there is no fleet in", done.stderr)

    def test_a_token_names_the_address_that_workers_use(self):
        self.assertEqual(self.fleet.token().address, f"{LOOPBACK}:{self.fleet.port}")
        self.assertEqual(self.fleet.token("--address", "gateway.example:443").address, "gateway.example:443")
        self.assertEqual(self.fleet.token("--address", "[fd00::7]:7100").address, "[fd00::7]:7100")

    # ---- What is asked wrongly ----

    def test_bodies_that_are_none(self):
        token = self.fleet.token()
        good = self.machine("wrong").body(token)
        wrong = [b"", b"{", b"[]", {**good, "csr": "x"}, {**good, "csr": None}, {**good, "name": "a/b"}, {**good, "addresses": ["a b"]},
                 {**good, "addresses": ["a"] * 9}, {**good, "secret": "short"}, {**good, "time": "now"}, json.dumps(good).encode() + b" " * 20000]
        for body in wrong:
            with Peer(self.fleet.port, [JOIN_ALPN]) as peer:
                status, answer = peer.greet().request("POST", "/join", body)
            self.assertEqual(status, 400, body)
            self.assertIn(json.loads(answer)["error"]["code"], ("malformed", "csr_invalid"))
        self.assertEqual(self.machine("wrong").join(self.fleet.port, token, protocol=2), (426, "protocol"))
        self.assertEqual(self.machine("wrong").join(self.fleet.port, token), (200, None))

    def test_nothing_else_is_there_without_a_certificate(self):
        for method, path, wanted in (("GET", "/join", 405), ("GET", "/fleet/trust", 404), ("PUT", "/fleet/workers/x", 404),
                                     ("POST", "/fleet/workers/x/certificate", 404), ("POST", "/chains/main/steps/1", 404)):
            with Peer(self.fleet.port, [JOIN_ALPN]) as peer:
                self.assertEqual(peer.greet().request(method, path)[0], wanted)

    def test_who_is_slow_is_dropped(self):
        with Peer(self.fleet.port, [JOIN_ALPN]) as idle, Peer(self.fleet.port, [JOIN_ALPN]) as slow:
            idle.greet()
            slow.greet().begin("POST", "/join", ends=False)
            slow.socket.sendall(frame(DATA, 0, 1, b"{"))
            self.assertTrue(idle.is_closed_within(30))
            self.assertTrue(slow.is_closed_within(30))

    # ---- Who is let in ----

    def outcome(self, alpn, machine=None):
        """What a client gets that offers these protocols: the protocol, or why not."""
        try:
            with Peer(self.fleet.port, alpn, machine and machine.certificate, machine and machine.key) as peer:
                selected = peer.selected()
                peer.greet()
                return selected
        except (OSError, ConnectionError) as error:
            return type(error).__name__ if not isinstance(error, ssl.SSLError) else error.reason

    def test_with_h2_a_certificate_is_required_whatever_else_is_offered(self):
        member = self.member("protocols")
        for alpn in (["h2"], ["h2", JOIN_ALPN], [JOIN_ALPN, "h2"], ["x", JOIN_ALPN, "h2"]):
            self.assertEqual(self.outcome(alpn), "TLSV13_ALERT_CERTIFICATE_REQUIRED", alpn)
            self.assertEqual(self.outcome(alpn, member), "h2", alpn)
        for alpn in ([], ["x"], ["longhaul-join/2"], ["http/1.1"]):
            self.assertNotIn(self.outcome(alpn), ("h2", JOIN_ALPN), alpn)
            self.assertNotIn(self.outcome(alpn, member), ("h2", JOIN_ALPN), alpn)
        self.assertEqual(self.outcome([JOIN_ALPN]), JOIN_ALPN)
        self.assertEqual(self.outcome([JOIN_ALPN], member), JOIN_ALPN)

    def sign(self, label, names, days=("-days", "2"), ca=None, extra=""):
        """A certificate by the fleet's own CA, or another one; its serial number is in no list of the gateway's."""
        machine = self.machine(label)
        (self.folder / f"{label}.csr").write_text(machine.csr)
        (self.folder / f"{label}.ext").write_text((f"subjectAltName={names}\n" if names else "") + extra)
        ca = ca or next(self.fleet.state.glob("ca-*.pem"))
        subprocess.run(["openssl", "x509", "-req", "-in", self.folder / f"{label}.csr", "-CA", ca, "-CAkey", ca, "-CAcreateserial", "-CAserial",
                        self.folder / "serial", *days, "-out", machine.certificate, "-extfile", self.folder / f"{label}.ext"], check=True,
                       capture_output=True)
        return machine

    def foreign_ca(self, subject):
        ca = self.folder / "foreign.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", subject, "-keyout",
                        self.folder / "foreign.key", "-out", self.folder / "foreign.crt"], check=True, capture_output=True)
        ca.write_text((self.folder / "foreign.key").read_text() + (self.folder / "foreign.crt").read_text())
        return ca

    def bad_certificates(self):
        uri = "URI:longhaul://worker/bad?site=office"
        own = subprocess.run(["openssl", "x509", "-noout", "-subject", "-nameopt", "compat", "-in", next(self.fleet.state.glob("ca-*.pem"))], check=True,
                             capture_output=True, text=True).stdout.strip().partition("=")[2]
        foreign = self.foreign_ca(own)
        yield "of another CA with the same name", self.sign("bad-1", uri, ca=foreign)
        yield "signed by the fleet's CA, and not by the gateway", self.sign("bad-2", uri)
        yield "expired", self.sign("bad-3", uri, days=("-days", "-1"))
        yield "the gateway's name", self.sign("bad-4", "URI:longhaul://worker/bad?site=office,URI:longhaul://gateway")
        yield "two workers", self.sign("bad-5", f"{uri},URI:longhaul://worker/other?site=office")
        yield "no site", self.sign("bad-6", "URI:longhaul://worker/bad")
        yield "a common name alone", self.sign("bad-7", None)
        yield "a host name alone", self.sign("bad-8", "DNS:bad")
        yield "another scheme", self.sign("bad-9", "URI:https://worker/bad?site=office")
        yield "for servers alone", self.sign("bad-10", uri, extra="extendedKeyUsage=serverAuth\n")
        member = self.member("issuer")
        chain = self.folder / "issuer.pem"
        chain.write_text(member.key.read_text() + member.certificate.read_text())
        by_member = self.sign("bad-11", uri, ca=chain)
        by_member.certificate.write_text(by_member.certificate.read_text() + member.certificate.read_text())
        yield "signed by a member", by_member
        revoked = self.member("revoked")
        self.fleet.run("revoke", "worker", "revoked")
        wait_until(lambda: not revoked.is_accepted(self.fleet.port), "it is revoked")
        yield "revoked", revoked
        itself = self.machine("bad-13")
        subprocess.run(["openssl", "req", "-x509", "-key", itself.key, "-subj", "/CN=bad", "-days", "2", "-addext", f"subjectAltName={uri}", "-out",
                        itself.certificate], check=True, capture_output=True)
        yield "signed by itself", itself

    def test_bad_certificates_are_refused_one_and_all(self):
        accepted, tried = [], 0
        for what, machine in self.bad_certificates():
            tried += 1
            if self.outcome(["h2"], machine) == "h2" or machine.is_accepted(self.fleet.port):
                accepted.append(what)
        self.assertEqual((accepted, tried), ([], 13))

    # ---- Members ----

    def test_a_member_renews_its_own_certificate_alone(self):
        one, other = self.member("renews"), self.member("other")
        self.assertEqual(one.renew(self.fleet.port), 429, "half of its life is not over")
        self.assertEqual(other.renew(self.fleet.port, "renews"), 403)

    def test_a_copied_key_ousts_nobody(self):
        """Renewals with a copy of a member's key and certificate, which is still connected."""
        member = self.member("copied")
        with member.connect(self.fleet.port) as serving:
            for _ in range(10):
                with member.connect(self.fleet.port) as copy:
                    status, answer = member.ask_renewal(copy, member.make_request(self.folder / "copy.key"))
                self.assertEqual(status, 429)
                self.assertEqual(json.loads(answer)["error"]["code"], "not_due")
            self.assertEqual(serving.request("GET", "/fleet/trust")[0], 200)
        self.assertTrue(member.is_accepted(self.fleet.port))

    def test_a_lost_answer_is_given_again(self):
        """With the key that was certified before: as often as it is asked for."""
        member = self.member("forgetful")
        csr = subprocess.run(["openssl", "req", "-new", "-key", member.key, "-subj", "/CN=x"], check=True, capture_output=True, text=True).stdout
        number = re.search(r"Serial Number:\s+(\S+)", member.text()).group(1)
        for _ in range(10):
            with member.connect(self.fleet.port) as peer:
                status, answer = member.ask_renewal(peer, csr)
            self.assertEqual(status, 200)
            member.keep(json.loads(answer))
            self.assertEqual(re.search(r"Serial Number:\s+(\S+)", member.text()).group(1), number)
        self.assertTrue(member.is_accepted(self.fleet.port))

    def test_a_revoked_member_is_out_within_a_second(self):
        member, bystander = self.member("out"), self.member("in")
        with member.connect(self.fleet.port) as open_one, bystander.connect(self.fleet.port) as other:
            self.assertEqual(open_one.request("GET", "/fleet/trust")[0], 200)
            self.fleet.run("revoke", "worker", "out")
            began = time.monotonic()
            self.assertTrue(open_one.is_closed_within(30))
            self.assertLess(time.monotonic() - began, 1 * slowness() + 1)
            self.assertEqual(self.outcome(["h2"], member), "SSLV3_ALERT_CERTIFICATE_REVOKED")
            self.assertEqual(other.request("GET", "/fleet/trust")[0], 200)
        self.assertNotEqual(self.fleet.command("revoke", "worker", "out").returncode, 0)
        again = self.machine("out-again")
        self.assertEqual(again.join(self.fleet.port, self.fleet.token(), name="out"), (200, None))
        self.assertTrue(again.is_accepted(self.fleet.port))
        self.assertFalse(member.is_accepted(self.fleet.port))

    def listen_as(self, machine):
        """A worker's port, as far as a test of it goes: TLS, and the first words of HTTP/2. Its port."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(machine.certificate, machine.key)
        context.load_verify_locations(machine.trust)
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols(["h2"])
        listener = socket.create_server((LOOPBACK, 0))
        self.addCleanup(listener.close)

        def serve():
            try:
                connection, _ = listener.accept()
                with context.wrap_socket(connection, server_side=True) as secured:
                    secured.sendall(frame(4))
                    while secured.recv(4096):
                        pass
            except OSError:
                pass

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1]

    def reach(self, machine, port, name=None):
        with machine.connect(self.fleet.port) as peer:
            status, answer = peer.request("POST", f"/fleet/workers/{name or machine.name}/reach", {"address": f"{LOOPBACK}:{port}"})
        return status, json.loads(answer) if status == 200 else answer

    def test_the_gateway_says_whether_it_reaches_a_worker(self):
        one, other = self.member("reached"), self.member("stranger")
        status, answer = self.reach(one, self.listen_as(one))
        self.assertEqual((status, answer["reached"]), (200, True), answer)
        self.assertGreater(answer["us"], 0)
        status, answer = self.reach(one, self.listen_as(other))
        self.assertFalse(answer["reached"])
        self.assertIn("stranger", answer["error"])
        status, answer = self.reach(one, free_port())
        self.assertFalse(answer["reached"])
        self.assertRegex(answer["error"], "refused")
        self.assertEqual(self.reach(one, free_port(), "stranger")[0], 403)


class Lives(unittest.TestCase):
    """What outlives the gateway, and what it does by itself as time passes. Each test has a fleet of its own."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="longhaul-joining-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def start(self, *flags):
        self.fleet = OwnFleet(self.folder, flags)
        self.addCleanup(self.fleet.stop)
        return self.fleet

    def test_a_joining_survives_the_gateways_death(self):
        fleet = self.start()
        token = fleet.token("--uses", "20")
        for number in range(12):
            machine = Machine(self.folder, f"dies-{number}")
            killer = threading.Timer(0.004 * number, fleet.gateway.kill)
            try:
                killer.start()
                machine.join(fleet.port, token)
            except OSError:
                pass
            killer.join()
            fleet.start()
            self.assertEqual(machine.join(fleet.port, token), (200, None), "the same key again")
            self.assertTrue(machine.is_accepted(fleet.port))
        self.assertIn("12 of 20", fleet.run("tokens"))

    def serial(self):
        show = subprocess.run(["openssl", "s_client", "-connect", f"{LOOPBACK}:{self.fleet.port}", "-alpn", JOIN_ALPN], stdin=subprocess.DEVNULL,
                              capture_output=True)
        return subprocess.run(["openssl", "x509", "-noout", "-serial"], input=show.stdout, capture_output=True, check=True).stdout

    def test_the_gateway_renews_its_own_certificate(self):
        fleet = self.start("--certificate-life", "30s")
        before = self.serial()
        wait_until(lambda: self.serial() != before, "another certificate")
        machine = Machine(self.folder, "later")
        self.assertEqual(machine.join(fleet.port, fleet.token()), (200, None))
        self.assertTrue(machine.is_accepted(fleet.port))

    def test_another_ca_follows(self):
        fleet = self.start()
        member = Machine(self.folder, "member")
        self.assertEqual(member.join(fleet.port, fleet.token()), (200, None))
        old = fleet.token("--uses", "5")
        with member.connect(fleet.port) as peer:
            fleet.run("rotate-ca", "--overlap", "2s")
            stream = iter(range(1, 1000, 2))
            both = wait_until(lambda: [body for body in [peer.request("GET", "/fleet/trust", stream=next(stream))[1]] if body.count(b"BEGIN") == 2],
                              "two CAs in the bundle")[0]
            self.assertTrue(both.startswith(member.trust.read_bytes()), "the one that signs comes first")
            wait_until(lambda: "another CA signs" in fleet.gateway.log_text(), "the new one signs")
            self.assertEqual(peer.request("GET", "/fleet/trust", stream=next(stream))[0], 200, "the connection lives on")
        self.assertTrue(member.is_accepted(fleet.port))
        self.assertNotEqual(fleet.token().pin, old.pin)
        self.assertEqual(member.renew(fleet.port), 200)
        self.assertEqual(member.trust.read_text().count("BEGIN"), 2)
        self.assertEqual(member.report(fleet.port), 200, "it uses what it has got")
        wait_until(lambda: "believed no more" in fleet.gateway.log_text(), "the old one goes")
        self.assertTrue(member.is_accepted(fleet.port))
        self.assertEqual(fleet.run("members").count("\nCA "), 1)

    def test_wrong_secrets_are_slowed_down(self):
        fleet = self.start()
        token = fleet.token()
        outcomes = [Machine(self.folder, "guesser").join(fleet.port, token, secret="A" * 43) for _ in range(11)]
        self.assertEqual(outcomes, [(403, "token_unknown")] * 10 + [(429, "busy")])

    def test_the_gateway_ends_while_somebody_joins(self):
        fleet = self.start()
        token = fleet.token("--uses", "8")
        machines = [Machine(self.folder, f"late-{number}") for number in range(8)]

        def join(machine):
            try:
                machine.join(fleet.port, token)
            except OSError:
                pass

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            pool.map(join, machines)
            self.assertEqual(fleet.stop(), 0)


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=["Joining.test_a_machine_joins_and_is_let_in", "Joining.test_many_join_at_once", "Joining.test_bodies_that_are_none",
                                                "Joining.test_a_revoked_member_is_out_within_a_second", "Lives.test_another_ca_follows",
                                                "Lives.test_the_gateway_ends_while_somebody_joins"])
