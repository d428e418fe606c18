"""The image that deploy/Dockerfile makes: small, without a shell, not root, and all there that the programs need: a gateway and two workers find each
other by name, fetch weights and answer as programs of this machine do. Skipped where no Docker engine answers."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import certificates
import containers
from fleet import Fleet
from model_hub import Hub
from programs import need_model, run_tests, wait_until
from test_pull import make_model

REQUEST = {"prompt": "The longest bridge", "max_tokens": 24, "temperature": 0, "logprobs": 1}
SIZE_BYTES_MAX = 30 << 20


def complete(base):
    body = json.dumps(REQUEST).encode()
    request = urllib.request.Request(f"{base}/v1/completions", body, {"Content-Type": "application/json"})
    choice = json.load(urllib.request.urlopen(request, timeout=300))["choices"][0]
    return choice["text"], choice["logprobs"]["token_logprobs"]


def is_ready(base):
    try:
        return urllib.request.urlopen(f"{base}/readyz", timeout=5).status == 200
    except OSError:
        return False


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.image = containers.build_image()
        cls.model = pathlib.Path(need_model())

    def test_it_is_small(self):
        size_bytes = int(containers.docker("image", "inspect", "--format", "{{.Size}}", self.image).stdout)
        self.assertLessEqual(size_bytes, SIZE_BYTES_MAX)

    def test_it_has_no_shell_and_is_not_root(self):
        self.assertNotEqual(containers.docker("run", "--rm", self.image, "sh", "-c", "true", check=False).returncode, 0)
        self.assertEqual(containers.docker("image", "inspect", "--format", "{{.Config.User}}", self.image).stdout.strip(), "10001:10001")

    def test_it_names_the_licences(self):
        with containers.Network() as network:
            archive = containers.docker("cp", f"{network.run('idle', 'longhaul-worker', '--help')}:/usr/share/doc", "-").stdout
        for package in ("longhaul", "libssl3", "libnghttp2-14", "libc6"):
            self.assertIn(f"doc/{package}/copyright", archive)

    def pull_over_tls(self, folder, *flags):
        """As a container that calls this machine `hub`."""
        certificates.make_ca(folder)
        certificates.issue_server(folder, "hub", host="hub")
        with Hub(certificate=folder / "hub.crt", key=folder / "hub.key") as hub:
            hub.add("tiny.gguf", make_model(folder / "tiny.gguf"))
            return containers.docker("run", "--rm", "--network", "host", "--add-host", "hub:127.0.0.1", *containers.HARDENED, "--tmpfs", "/models:uid=10001",
                                     *flags, self.image, "longhaul-gateway", "pull", f"https://hub:{hub.port}/tiny.gguf", "--output", "/models/", "--tries",
                                     1, check=False)

    def test_names_and_certificates_of_others_are_checked(self):
        """A hub whose CA is among those that the image believes, and the same one as the image is."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            done = self.pull_over_tls(folder, "--volume", f"{folder}/ca.crt:/etc/ssl/certs/ca-certificates.crt:ro")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn('"event":"done"', done.stdout.replace(" ", ""))
            done = self.pull_over_tls(folder)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "certificate")
        self.assertGreater(self.bundle().count("BEGIN CERTIFICATE"), 100)

    def bundle(self):
        """The public CAs that it believes."""
        container = containers.docker("create", self.image).stdout.strip()
        try:
            archive = containers.docker_bytes("cp", f"{container}:/etc/ssl/certs/ca-certificates.crt", "-")
        finally:
            containers.docker("rm", container)
        return archive.decode(errors="replace")

    def test_its_programs_answer_as_those_of_this_machine(self):
        with containers.Network() as network:
            gateway = network.run("gateway", "longhaul-gateway", "--model", f"/models/{self.model.name}", "--listen", "0.0.0.0:8080", "--insecure-no-keys",
                                  "--fleet-listen", "0.0.0.0:7100", "--insecure-plaintext", "--workers", 2,
                                  flags=["--volume", f"{self.model.parent}:/models:ro"])
            for name in ("home", "office"):
                network.run(name, "longhaul-worker", "--name", name, "--gateway", "http://gateway:7100", "--listen", "0.0.0.0:7101", "--advertise",
                            f"{name}:7101", "--insecure-plaintext", "--threads", 1, flags=["--volume", "/var/cache/longhaul"])
            base = f"http://{network.address(gateway)}:8080"
            wait_until(lambda: is_ready(base), "the containers serve")
            answer = complete(base)
        with Fleet(workers=1) as fleet:
            fleet.wait_ready()
            self.assertEqual(answer, complete(fleet.url))


@unittest.skipUnless(os.environ.get("LONGHAUL_TEST_THOROUGH"), "LONGHAUL_TEST_THOROUGH is not set")
class ImageForArm(unittest.TestCase):
    """Built across; its programs run under the emulator with the libraries of the image alone."""

    @classmethod
    def setUpClass(cls):
        subprocess.run([containers.ROOT / "deploy" / "install-packages", "qemu-user"], check=True)
        cls.image = subprocess.run([containers.ROOT / "deploy" / "docker" / "aarch64", "longhaul-test-aarch64"], check=True, stdout=subprocess.PIPE,
                                   text=True).stdout.strip()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        container = containers.docker("create", cls.image).stdout.strip()
        try:
            archive = subprocess.run(["docker", "export", container], check=True, capture_output=True).stdout
        finally:
            containers.docker("rm", container)
        subprocess.run(["tar", "-x", "-C", cls.folder.name], input=archive, check=True)

    def ask(self, program, *words):
        root = pathlib.Path(self.folder.name)
        return subprocess.run(["qemu-aarch64", "-L", root, root / "usr" / "bin" / program, *words], capture_output=True, text=True, timeout=60)

    def test_it_says_what_it_is_for(self):
        seen = json.loads(containers.docker("image", "inspect", self.image).stdout)[0]
        self.assertEqual((seen["Architecture"], seen["Config"]["User"]), ("arm64", "10001:10001"))
        self.assertEqual(seen["Config"]["Cmd"], ["longhaul-gateway", "--help"])
        self.assertIn("PATH=/usr/bin", seen["Config"]["Env"])
        self.assertLessEqual(seen["Size"], SIZE_BYTES_MAX)

    def test_its_programs_start(self):
        for program in ("longhaul-gateway", "longhaul-worker", "longhaul-link"):
            done = self.ask(program, "--version")
            self.assertEqual((done.returncode, done.stderr), (0, ""), program)
            self.assertIn(program, done.stdout)

    def test_it_names_the_licences(self):
        for package in ("longhaul", "libssl3", "libnghttp2-14", "libc6"):
            self.assertTrue((pathlib.Path(self.folder.name) / "usr" / "share" / "doc" / package / "copyright").exists(), package)


if __name__ == "__main__":
    containers.need_engine()
    run_tests(sys.modules[__name__])
