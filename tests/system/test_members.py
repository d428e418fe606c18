"""Who is a member, and what a member gone bad can do: one certificate is one worker's name and site, and a name is one process's."""

import json
import pathlib
import re
import struct
import subprocess
import sys
import time
import unittest

from certificates import issue
from crc32c import crc32c, seal
from fleet import Fleet
from programs import Program, free_port, run_tests, wait_until
from secure_fleet import HOME, SecureFleet
from stream import Stream

PROMPT = "Once upon a time there was a lighthouse keeper who"
TOKENS = 64


def sealed_report(name, site, instance="00000000000000aa", address=f"{HOME}:9"):
    body = json.dumps({
        "protocol": 4, "instance": instance, "site": site, "version": "0", "isa": "none", "threads": 1, "addresses": {"tls": address, "plain": None},
        "memory_bytes": 1, "kv_bytes": 0, "assignment": None, "compute": None, "next": None, "kv": None,
        "steps": {"active": 0, "done": 0, "failed": 0}, "leaving": False,
    })
    return seal(name, body)


class Names(unittest.TestCase):
    """In the clear."""

    def test_a_name_is_one_process(self):
        with Fleet(2) as fleet:
            with Stream(fleet.port, PROMPT, TOKENS) as stream:
                undisturbed = stream.finish().text
            first = fleet.workers[0]
            second = Program("second", [
                fleet.worker_program, "--name", "worker-1", "--site", "site-1", "--gateway", f"http://127.0.0.1:{fleet.fleet_port}", "--listen", "127.0.0.1:0",
                "--threads", "1", "--cache-dir", fleet.cache_folder(7), *fleet.worker_flags], fleet.folder)
            fleet.workers.append(second)
            refused = r"a worker named worker-1 is serving from 127\.0\.0\.1:\d+ \(instance [0-9a-f]{16}\); give this one .* another --name"
            wait_until(lambda: re.search(rf"the gateway refuses this worker, trying on .*{refused}", second.log_text()), "it is told")
            with Stream(fleet.port, PROMPT, TOKENS) as stream:
                self.assertEqual(stream.finish().text, undisturbed)
            log = fleet.gateway.log_text()
            self.assertEqual(len(re.findall(refused, log)), 1, "once, however often it asks")
            self.assertNotIn("was restarted", log)
            first.kill()
            fleet.workers.remove(first)
            wait_until(lambda: "the gateway answers again" in second.log_text(), "it has the name now")
            fleet.wait_ready()


class Places(unittest.TestCase):
    """In the clear anybody may invent names; an address has its share of them, and no more."""

    def test_invented_names_take_no_worker_its_place(self):
        with Fleet(1) as fleet:
            port = f"http://127.0.0.1:{fleet.fleet_port}"
            answers = []
            for number in range(70):
                name = f"invented-{number}"
                report = sealed_report(name, "nowhere", f"{number:016x}").replace('"tls": "127.0.0.1:9", "plain": null', '"tls": null, "plain": "127.0.0.1:9"')
                body = report.rpartition("\ncrc32c=")[0]
                asked = subprocess.run(
                    ["curl", "-sS", "--http2-prior-knowledge", "--max-time", "60", "-X", "PUT", "--data-binary", "@-", "-w", "\n%{http_code}",
                     f"{port}/fleet/workers/{name}"], input=seal(name, body), capture_output=True, text=True, check=False)
                answers.append(asked.stdout.rpartition("\n")[2])
            self.assertEqual(set(answers), {"200", "503"})
            self.assertLess(len(fleet.fleet_state()["workers"]), 40)
            fleet.start_worker(1)
            with Stream(fleet.port, PROMPT, TOKENS) as stream:
                self.assertTrue(stream.finish().is_done)
            wait_until(lambda: any(worker["name"] == "worker-2" for worker in fleet.fleet_state()["workers"]), "another one finds a place")


# Of the step format, as the programs have it.
PROTOCOL = int(re.search(r"LH_STEP_PROTOCOL_VERSION +(\d+)u", (pathlib.Path(__file__).parents[2] / "common" / "protocol" / "step.h").read_text())[1])


def manifest(epoch, step):
    """Of a step without rows, for the last worker of a chain."""
    payload = struct.pack("<IIQIIIIIIIII", PROTOCOL, epoch, step, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    head = struct.pack("<III", 1, len(payload), crc32c(payload))
    return head + struct.pack("<I", crc32c(head)) + payload


class Numbers(unittest.TestCase):
    """In the clear everybody is believed to be the worker before; but no number that nobody has counted to."""

    def test_a_number_out_of_all_proportion_breaks_nothing(self):
        with Fleet(2) as fleet:
            with Stream(fleet.port, PROMPT, TOKENS) as stream:
                undisturbed = stream.finish().text
            chain = fleet.fleet_state()["chains"][0]
            for epoch, number, status in ((chain["epoch"], 1 << 63, "400"), (chain["epoch"], (1 << 64) - 1, "400"), (chain["epoch"] + 1, 1, "503"),
                                          (chain["epoch"] - 1, 1, "409"), ((1 << 32) - 1, 1, "503")):
                asked = subprocess.run(
                    ["curl", "-sS", "--http2-prior-knowledge", "--max-time", "60", "--data-binary", "@-", "-w", "\n%{http_code}",
                     f"http://{chain['stages'][1]['address']}/chains/main/steps/{number}"], input=manifest(epoch, number), capture_output=True, check=True)
                self.assertEqual(asked.stdout.decode().splitlines()[-1], status, asked.stdout)
            with Stream(fleet.port, PROMPT, TOKENS) as stream:
                self.assertEqual(stream.finish().text, undisturbed)
            self.assertEqual(fleet.fleet_state()["chains"][0]["epoch"], chain["epoch"])


class Members(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = SecureFleet(2).__enter__()
        cls.addClassCleanup(cls.fleet.__exit__, None, None, None)
        issue(cls.fleet.certificates.name, "mallory", "elsewhere")

    def ask(self, certificate, port, method, path, body=""):
        """(status, text) of a request with somebody's certificate."""
        folder = self.fleet.certificates.name
        asked = subprocess.run(
            ["curl", "-sS", "--insecure", "--http2", "--max-time", "60", "--cert", f"{folder}/{certificate}.crt", "--key", f"{folder}/{certificate}.key",
             "-X", method, *(["--data-binary", "@-"] if body else []), "-w", "\n%{http_code}", f"https://{HOME}:{port}{path}"],
            input=body, capture_output=True, text=True, check=False)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        text, _, status = asked.stdout.rpartition("\n")
        return int(status), text

    def report(self, certificate, name, site):
        return self.ask(certificate, self.fleet.fleet_port, "PUT", f"/fleet/workers/{name}", sealed_report(name, site))

    def start(self, name, certificate, *flags):
        address = f"{HOME}:{free_port()}"
        tls = issue(self.fleet.certificates.name, *certificate)
        return Program(name, [self.fleet.worker_program, "--gateway", f"https://{HOME}:{self.fleet.fleet_port}", "--listen-tls", address, "--threads", "1",
                              "--kv-bytes", "64M", "--cache-dir", f"{self.fleet.folder}/cache-{name}", *flags, *tls], self.fleet.folder)

    # ---- Names

    def test_nobody_reports_for_others(self):
        for name, site in (("worker-1", "site-of-worker-1"), ("worker-1", "mallory"), ("worker-1", "elsewhere"), ("mallory", "site-of-worker-1")):
            with self.subTest(name=name, site=site):
                status, text = self.report("mallory", name, site)
                self.assertEqual(status, 403)
                self.assertEqual(text, f"the certificate is that of worker mallory of site elsewhere, the report that of worker {name} of site {site}\n")
                # A thread writes the log.
                wait_until(lambda said=text.strip(): said in self.fleet.gateway.log_text(), "the log says so")
        self.assertIsNone(self.fleet.worker_state("mallory"))
        self.assertEqual(self.fleet.worker_state("worker-1")["site"], "site-of-worker-1")
        self.assertNotIn("was restarted worker=worker-1", self.fleet.gateway.log_text())

    def test_a_program_is_whom_its_certificate_says(self):
        for flags in (["--name", "worker-1"], ["--site", "site-of-worker-1"]):
            ended = self.start("impostor", ("mallory", "elsewhere"), *flags)
            self.assertEqual(ended.wait(), 1)
            ended.stop()
            self.assertRegex(ended.log_text(), rf"{flags[0]}: '{flags[1]}' is not what the certificate of --tls-cert says, which is '(mallory|elsewhere)'")

    def test_a_member_needs_no_flags_to_say_who_it_is(self):
        member = self.start("modest", ("modest", "attic"))
        try:
            self.assertEqual(wait_until(lambda: self.fleet.worker_state("modest"), "it is there")["site"], "attic")
        finally:
            self.assertEqual(member.stop(), 0)

    def test_a_name_is_one_process_until_that_has_gone(self):
        first = self.start("first", ("twin", "attic"))
        wait_until(lambda: self.fleet.worker_state("twin"), "the first is there")
        second = self.start("second", ("twin", "attic"))
        try:
            wait_until(lambda: "a worker named twin is serving from" in second.log_text(), "the second is told")
            began = time.monotonic()
            first.kill()
            wait_until(lambda: "the gateway answers again" in second.log_text(), "it has the name now")
            print(f"    the name was free again after {(time.monotonic() - began) * 1000:.0f} ms")
        finally:
            first.stop()
            self.assertEqual(second.stop(), 0)

    # ---- What workers take

    def chain(self):
        return self.fleet.fleet_state()["chains"][0]

    def port_of(self, stage):
        return stage["address"].rpartition(":")[2]

    def refused(self, certificate, stage, method, path, words):
        status, text = self.ask(certificate, self.port_of(stage), method, path)
        self.assertEqual(status, 403, text)
        self.assertIn(words, json.loads(text)["error"]["message"])

    def test_a_worker_takes_steps_from_the_one_before_alone(self):
        wait_until(lambda: self.fleet.fleet_state()["state"] == "ready", "the chain is there")
        epoch, stages = self.chain()["epoch"], self.chain()["stages"]
        before = "the gateway"
        for stage in stages:
            for who, whom in (("mallory", "worker mallory of site elsewhere"), ("gateway", "the gateway"), (stages[-1]["worker"], f"worker {stages[-1]['worker']}")):
                if before in whom:
                    continue
                for path in (f"/chains/main/steps/{1 << 63}", "/chains/main/steps/1", f"/chains/main/shards/{epoch}/1", "/chains/other/steps/1"):
                    with self.subTest(stage=stage["worker"], who=who, path=path):
                        self.refused(who, stage, "POST", path, f"steps are for {before}, not for {whom}")
            before = f"worker {stage['worker']}"
        with Stream(self.fleet.port, PROMPT, TOKENS) as stream:
            self.assertTrue(stream.finish().is_done)
        self.assertEqual(self.chain()["epoch"], epoch)
        for stage in stages:
            self.assertEqual(json.loads(self.ask("gateway", self.port_of(stage), "GET", "/status")[1])["steps"]["failed"], 0)

    def test_the_status_is_the_gateways(self):
        stage = self.chain()["stages"][0]
        self.refused("mallory", stage, "GET", "/status", "the status is for the gateway, not for worker mallory of site elsewhere")
        self.assertEqual(self.ask("gateway", self.port_of(stage), "GET", "/status")[0], 200)
        self.assertEqual(self.ask("mallory", self.port_of(stage), "GET", "/health")[0], 200)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
