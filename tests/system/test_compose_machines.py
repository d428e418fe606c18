"""deploy/gateway.compose.yaml and deploy/site.compose.yaml with docker-compose, as three machines would have them: a project each, which reach one
another at ports of the host alone. Skipped where no Docker engine answers, or there is no docker-compose."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import compose_project
import containers
from compose_project import ComposeFile, FleetFile
from containers import docker
from programs import free_port, run_tests, wait_until
from stream import Stream

PROMPT = "The longest bridge"
TOKENS = 24
USER = 10001
SITES = ("home", "office")
# With the image there, and each container started by hand one after the other.
FIRST_TOKEN_S_MAX = 30


def host_address():
    """At which containers of any network reach the ports that this machine publishes."""
    bridge = docker("network", "inspect", "bridge", "--format", '{{index .Options "com.docker.network.bridge.name"}}').stdout.strip()
    shown = subprocess.run(["ip", "-json", "-4", "address", "show", bridge], capture_output=True, text=True, check=True).stdout
    return json.loads(shown)[0]["addr_info"][0]["local"]


class Site(ComposeFile):
    """join_line: what the gateway has printed; mode: of the file that it is in."""

    def __init__(self, folder, name, join_line, mode=0o400, **settings):
        self.port, self.join_file = free_port(), pathlib.Path(folder) / f"{name}.join"
        self.join_file.write_text(join_line)
        os.chown(self.join_file, USER, USER)
        self.join_file.chmod(mode)
        super().__init__("site.compose.yaml", {"NAME": name, "ADVERTISE": f"{host_address()}:{self.port}", "WORKER_PORT": str(self.port), "THREADS": "1",
                                               "KV_BYTES": "256M", "JOIN_FILE": str(self.join_file), "METRICS_AT": f"127.0.0.1:{free_port()}", **settings})

    def log(self):
        return docker("logs", self.container("worker")).stderr


class Machines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        containers.build_image()
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="longhaul-machines-"))
        fleet_port = free_port()
        cls.gateway = cls.enterClassContext(FleetFile("gateway.compose.yaml", {
            "ADDRESS": f"{host_address()}:{fleet_port}", "FLEET_PORT": str(fleet_port), "WORKERS": str(len(SITES)), "METRICS": "0.0.0.0:7102",
            "METRICS_AT": f"127.0.0.1:{free_port()}"}))
        began = time.monotonic()
        cls.gateway.up()
        cls.sites = {}
        for name in SITES:
            cls.sites[name] = cls.enterClassContext(Site(cls.folder, name, cls.token(name)))
            cls.sites[name].up()
        cls.gateway.wait_whole(SITES)
        with Stream(cls.gateway.port, PROMPT, TOKENS) as stream:
            stream.read(1)
            cls.first_token_s = time.monotonic() - began
            cls.text = stream.finish().text

    def setUp(self):
        self.gateway.wait_whole(SITES)

    @classmethod
    def command(cls, *words):
        return docker("exec", cls.gateway.container("gateway"), "longhaul-gateway", *words).stdout

    @classmethod
    def token(cls, site):
        return cls.gateway.compose("exec", "-T", "gateway", "longhaul-gateway", "token", "--site", site)

    def members(self):
        """Name, site and serial number, or whatever else stays while nobody gets a certificate."""
        return self.command("members")

    def replace(self, project, service):
        before = project.container(service)
        project.compose("rm", "--stop", "--force", service)
        project.up()
        self.assertNotEqual(project.container(service), before)

    def assert_serves(self):
        self.gateway.wait_whole(SITES)
        self.assertEqual(self.gateway.complete(prompt=PROMPT, max_tokens=TOKENS, temperature=0, ignore_eos=True)["text"], self.text)

    def test_the_first_token_comes_soon(self):
        print(f"    first token after {self.first_token_s:.1f} s with the image there")
        self.assertLess(self.first_token_s, FIRST_TOKEN_S_MAX)

    def test_sites_are_members_over_tls(self):
        for name, worker in self.gateway.workers().items():
            self.assertEqual(worker["site"], name)
        for name in SITES:
            self.assertRegex(self.members(), rf"(?m)^{name} +{name} +good ")
            self.assertEqual(docker("exec", self.sites[name].container("worker"), "longhaul-worker", "check").stdout, '{"status":"ok"}\n')

    def test_a_token_is_in_a_file_alone(self):
        seen = docker("inspect", self.sites["office"].container("worker")).stdout
        secret = self.sites["office"].join_file.read_text().split()[-1]
        self.assertNotIn(secret, seen)
        self.assertNotIn("lh1.", seen)
        self.assertNotIn(secret, self.sites["office"].log())

    def test_a_container_that_is_replaced_is_who_it_was(self):
        before = self.members()
        self.replace(self.sites["office"], "worker")
        self.assert_serves()
        self.assertIn("has joined by this token before", self.sites["office"].log())
        self.replace(self.gateway, "gateway")
        self.assert_serves()
        self.assertEqual(self.members(), before)

    def test_a_token_that_others_may_read_is_refused(self):
        with Site(self.folder, "attic", self.token("attic"), mode=0o444) as attic:
            attic.up()
            wait_until(lambda: "may be read by others" in attic.log() or "chmod" in attic.log(), "the mode is told")
            self.assertNotIn("joined", attic.log())

    def metrics(self, project):
        try:
            with urllib.request.urlopen(f"http://{project.settings['METRICS_AT']}/metrics", timeout=10) as answer:
                return answer.read().decode()
        except OSError:
            return None

    def test_metrics_are_published_where_they_are_wanted(self):
        self.assertIn("longhaul_gateway_state", self.metrics(self.gateway))
        office = self.sites["office"]
        self.assertIsNone(self.metrics(office))
        office.settings["METRICS"] = "0.0.0.0:7103"
        self.replace(office, "worker")
        self.gateway.wait_whole(SITES)
        self.assertIn('longhaul_build_info{', self.metrics(office))

    def test_a_backup_of_the_volume_brings_the_fleet_back(self):
        """As docs/OPERATING.md has it: copied while it runs, put into a new volume."""
        state = "/var/lib/longhaul/gateway"
        before, backup = self.members(), pathlib.Path(self.folder) / "gateway.tar"
        backup.write_bytes(containers.docker_bytes("cp", f"{self.gateway.container('gateway')}:{state}/.", "-"))
        self.gateway.compose("down", "--volumes")
        self.gateway.compose("up", "--no-start", "--no-build", "gateway")
        container = self.gateway.compose("ps", "--all", "--quiet", "gateway").strip()
        containers.docker_bytes("cp", "-", f"{container}:{state}", stdin=backup.read_bytes())
        self.gateway.compose("start", "gateway")
        self.assert_serves()
        self.assertEqual(self.members(), before)


if __name__ == "__main__":
    containers.need_engine()
    compose_project.need_compose()
    run_tests(sys.modules[__name__])
