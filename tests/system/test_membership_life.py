"""A fleet of workers that have joined: streams live on while its CA and certificates change; one that is revoked is out, and its chain without it."""

import json
import pathlib
import re
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

from joining import LOOPBACK, Machine, OwnFleet
from membership_attacks import Crowd, StolenKey, come_back_though_revoked, join_with_wrong_secrets
from programs import PATIENCE_S, Program, build_folder, free_port, need_file, run_tests, slowness, wait_until
from stream import Stream

TOKENS = 400


class MembershipLife(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="longhaul-membership-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        self.worker_program = need_file(build_folder() / "longhaul-worker", "longhaul-worker is not built")
        self.workers = []

    def start(self, workers, *flags):
        self.fleet = OwnFleet(self.folder, ["--workers", str(workers), "--plan-delay-ms", "100", "--renew-ms", "100", "--lease-ms",
                                            str(3000 * slowness()), *flags])
        self.addCleanup(self.fleet.stop)
        for number in range(workers):
            self.join(f"worker-{number + 1}")
        self.wait_ready()

    def join(self, name):
        token = self.fleet.token("--name", name)
        self.workers.append(self.run_worker(name, "join", f"https://{LOOPBACK}:{self.fleet.port}", token.text))

    def run_worker(self, name, *words):
        worker = Program(name, [self.worker_program, *words, "--state-dir", self.folder / name, "--listen-tls", f"{LOOPBACK}:{free_port()}", "--model",
                                self.fleet.model, "--threads", "1", "--cache-dir", self.folder / f"{name}-cache", "--drain-timeout", "0"], self.folder)
        self.addCleanup(worker.stop)
        return worker

    def state(self):
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.fleet.api_port}/fleet", timeout=PATIENCE_S) as answer:
            return json.loads(answer.read())

    def wait_ready(self):
        wait_until(lambda: self.state()["state"] == "ready" or not all(worker.is_running() for worker in self.workers),
                   f"a chain: {self.fleet.gateway.log_text()[-2000:]}")
        for worker in self.workers:
            self.assertTrue(worker.is_running(), worker.log_text()[-2000:])

    def serials(self):
        return {worker["name"]: worker["certificate"]["serial"] for worker in self.state()["workers"]}

    def answer(self, tokens):
        with Stream(self.fleet.api_port, "Once upon a time", tokens) as stream:
            return stream.finish().text

    def crowd(self):
        """Strangers, a revoked member, and copies of a worker's key, here and elsewhere."""
        port = self.fleet.port
        revoked = Machine(self.folder, "revoked")
        self.assertEqual(revoked.join(port, self.fleet.token()), (200, None))
        self.fleet.run("revoke", "worker", "revoked")
        self.stolen = StolenKey(self.folder / "worker-1")
        return Crowd(threading.Event(), lambda is_over: self.stolen.renew_again_and_again(port, is_over),
                     lambda is_over: join_with_wrong_secrets(port, is_over), lambda is_over: come_back_though_revoked(revoked, port, is_over))

    def certificate(self, name):
        return (self.folder / name / "current" / "certificate.pem").read_text()

    def test_another_ca_follows_under_a_stream_and_under_attack(self):
        """One worker is off when the CA is changed, and comes back while it is."""
        self.start(2)
        self.join("worker-3")
        wait_until(lambda: "worker-3" in self.serials(), "the third one is there")
        off = self.workers.pop()
        off.stop()
        undisturbed = self.answer(TOKENS)
        names = ("worker-1", "worker-2", "worker-3")
        before = {name: self.certificate(name) for name in names}
        gateway = self.fleet.gateway
        with self.crowd():
            with Stream(self.fleet.api_port, "Once upon a time", TOKENS) as stream:
                stream.read(TOKENS // 20)
                self.fleet.run("rotate-ca")
                for worker in self.workers:
                    wait_until(lambda worker=worker: "the fleet trusts other CAs now" in worker.log_text(), "it has heard of the new CA")
                self.assertNotIn("another CA signs", gateway.log_text(), "one is off")
                self.workers.append(self.run_worker("worker-3"))
                wait_until(lambda: "another CA signs" in gateway.log_text(), "the new CA signs")
                self.assertIn('reason="all members believe it"', gateway.log_text())
                stream.finish()
                self.assertEqual((stream.text, stream.error), (undisturbed, None))
            wait_until(lambda: all(self.certificate(name) != before[name] for name in names), "all have other certificates")
            wait_until(lambda: "believed no more" in gateway.log_text(), "the old CA goes")
        self.assertGreater(self.stolen.granted, 0, "the copy was in time")
        self.assertEqual(self.fleet.run("members").count("\nCA "), 1)
        self.assertTrue(undisturbed.startswith(self.answer(TOKENS // 10)))
        self.assertEqual(set(re.findall(r"worker is gone worker=(\S+)", gateway.log_text())), {"worker-3"}, "nobody was lost but the one that was off")

    def test_certificates_are_renewed_under_streams(self):
        self.start(2, "--certificate-life", f"{30 * slowness()}s")
        undisturbed = self.answer(TOKENS)
        before, renewals = self.serials(), 0
        while renewals < 2:
            with Stream(self.fleet.api_port, "Once upon a time", TOKENS) as stream:
                stream.finish()
                self.assertEqual((stream.text, stream.error), (undisturbed, None))
            now = self.serials()
            renewals += all(now[name] != before[name] for name in now)
            before = now if all(now[name] != before[name] for name in now) else before
        self.assertEqual(self.fleet.gateway.log_text().count("chain is ready"), 1, "nothing was formed again")

    def test_a_revoked_worker_leaves_its_chain_at_once(self):
        self.start(2)
        undisturbed = self.answer(40)
        gateway = self.fleet.gateway
        with Stream(self.fleet.api_port, "Once upon a time", TOKENS) as stream:
            stream.read(10)
            self.fleet.run("revoke", "worker", "worker-2")
            began = time.monotonic()
            wait_until(lambda: "worker is gone worker=worker-2" in gateway.log_text(), "it is out")
            self.assertLess(time.monotonic() - began, 1.5 * slowness() + 1)
            stream.finish()
            self.assertIsNone(stream.error, "the other one has the whole model")
            self.assertTrue(stream.text.startswith(undisturbed))
        self.assertEqual([worker["name"] for worker in self.state()["workers"]], ["worker-1"])
        wait_until(lambda: re.search("revoked", self.workers[1].log_text()), "the worker says why")


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=["MembershipLife.test_another_ca_follows_under_a_stream_and_under_attack"])
