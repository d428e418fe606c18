"""The real programs' certificates: SIGHUP has them read again, a stream that is open meanwhile notices nothing, and a key that others may read is refused."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from certificates import issue, make_ca
from programs import Program, build_folder, free_port, need_file, need_model, run_tests, slowness, wait_until
from stream import Stream

TOKENS = 96
LOOPBACK = "127.0.0.1"


class Certificates(unittest.TestCase):
    sites = {"gateway": None, "worker-1": "elsewhere"}

    @classmethod
    def setUpClass(cls):
        build = build_folder()
        cls.programs = {name: need_file(build / f"longhaul-{name}", f"longhaul-{name} is not built") for name in ("gateway", "worker")}
        cls.model = need_model()
        cls.temporary = tempfile.TemporaryDirectory(prefix="longhaul-certificates-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        make_ca(cls.folder)
        cls.api_port, cls.fleet_port, cls.worker_port = free_port(), free_port(), free_port()
        cls.gateway = cls.start("gateway", "gateway")
        cls.addClassCleanup(cls.gateway.stop)
        cls.worker = cls.start("worker", "worker-1")
        cls.addClassCleanup(cls.worker.stop)
        wait_until(lambda: not cls.worker.is_running() or "chain is ready" in cls.gateway.log_text(), f"a chain: {cls.gateway.log_text()}")

    @classmethod
    def start(cls, program, name):
        tls = issue(cls.folder, name, cls.sites[name])
        return Program(name, [cls.programs[program], *tls, *cls.flags(program, name)], cls.folder)

    @classmethod
    def flags(cls, program, name):
        if program == "gateway":
            lease = str(3000 * slowness())
            return ["--model", cls.model, "--listen", f"{LOOPBACK}:{cls.api_port}", "--fleet-listen", f"{LOOPBACK}:{cls.fleet_port}", "--workers", "1",
                    "--plan-delay-ms", "100", "--lease-ms", lease]
        return ["--name", name, "--site", "elsewhere", "--gateway", f"https://{LOOPBACK}:{cls.fleet_port}", "--listen-tls", f"{LOOPBACK}:{cls.worker_port}",
                "--model", cls.model, "--cache-dir", cls.folder / "cache", "--threads", "1"]

    def serial(self, port):
        """Of the certificate that a new connection is shown."""
        show = subprocess.run(
            ["openssl", "s_client", "-connect", f"{LOOPBACK}:{port}", "-alpn", "h2", "-cert", "gateway.crt", "-key", "gateway.key", "-CAfile", "ca.crt"],
            cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True)
        told = subprocess.run(["openssl", "x509", "-noout", "-serial"], input=show.stdout, capture_output=True, check=True)
        return told.stdout.decode().strip().partition("=")[2]

    def issued(self, name):
        told = subprocess.run(["openssl", "x509", "-noout", "-serial", "-in", f"{name}.crt"], cwd=self.folder, capture_output=True, check=True)
        return told.stdout.decode().strip().partition("=")[2]

    def hang_up(self, program, words):
        """The line with which it answers the signal."""
        before = len(program.log_text())
        program.process.send_signal(signal.SIGHUP)
        return wait_until(lambda: not program.is_running() or re.search(f".*{words}.*", program.log_text()[before:]), f"the log says {words}")[0]

    def test_a_stream_lives_on_while_they_are_replaced(self):
        with Stream(self.api_port, "Once upon a time", TOKENS) as stream:
            undisturbed = stream.finish().text
        before = self.serial(self.fleet_port), self.serial(self.worker_port)
        self.assertEqual(before, (self.issued("gateway"), self.issued("worker-1")))
        with Stream(self.api_port, "Once upon a time", TOKENS) as stream:
            stream.read(TOKENS // 8)
            for program, name, port in ((self.gateway, "gateway", self.fleet_port), (self.worker, "worker-1", self.worker_port)):
                issue(self.folder, name, self.sites[name])
                line = self.hang_up(program, "certificates read again")
                self.assertIn(f"serial={self.issued(name)} ", line)
                self.assertRegex(line, r"expires=20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
                self.assertEqual(self.serial(port), self.issued(name))
            self.assertFalse(stream.is_done, "it has ended before the certificates were replaced")
            stream.finish()
        self.assertEqual((stream.text, stream.error, stream.is_done), (undisturbed, None, True))
        self.assertNotIn(self.issued("gateway"), before)
        self.assertNotIn(self.issued("worker-1"), before)

    def test_a_broken_file_is_refused_and_the_old_one_stays(self):
        for program, name, port in ((self.gateway, "gateway", self.fleet_port), (self.worker, "worker-1", self.worker_port)):
            before = self.serial(port)
            path = self.folder / f"{name}.crt"
            good = path.read_text()
            self.addCleanup(path.write_text, good)
            path.write_text(good[:100])
            line = self.hang_up(program, "certificates stay as they were")
            self.assertIn(str(path), line)
            self.assertIn(" error ", line)
            path.write_text(good)
            self.assertEqual(self.serial(port), before)
        with Stream(self.api_port, "Once upon a time", 4) as stream:
            self.assertTrue(stream.finish().is_done)

    def test_a_worker_without_certificates_outlives_the_signal(self):
        worker = Program("plain", [self.programs["worker"], "--name", "plain", "--listen", f"{LOOPBACK}:0", "--gateway", f"http://{LOOPBACK}:1", "--cache-dir",
                                   self.folder / "plain-cache", "--threads", "1", "--drain-timeout", "0"], self.folder)
        try:
            wait_until(lambda: "started" in worker.log_text(), "it runs")
            self.assertIn("--tls-cert", self.hang_up(worker, "SIGHUP"))
        finally:
            self.assertEqual(worker.stop(), 0)

    def test_a_key_that_others_may_read_is_refused(self):
        for program in ("gateway", "worker"):
            name = f"careless-{program}"
            tls = issue(self.folder, name, "elsewhere" if program == "worker" else None)
            os.chmod(self.folder / f"{name}.key", 0o644)
            flags = ["--model", self.model, "--listen", f"{LOOPBACK}:0", "--fleet-listen", f"{LOOPBACK}:0"] if program == "gateway" else \
                ["--listen-tls", f"{LOOPBACK}:0", "--gateway", f"https://{LOOPBACK}:{self.fleet_port}", "--cache-dir", self.folder / "cache"]
            ended = subprocess.run([self.programs[program], *tls, *flags], capture_output=True, text=True, timeout=300)
            self.assertEqual(ended.returncode, 1, ended.stderr)
            self.assertIn(f"chmod 600 {self.folder / name}.key", ended.stderr)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
