"""The real programs with a configuration file: they serve by it alone, its faults are told with their lines, and the sample files are the defaults."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from api_keys import key_line, write_private
from fleet import Fleet
from programs import Program, build_folder, is_sanitized, need_model, run_tests, wait_until

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "config"


def run(program, *arguments, **variables):
    """Status, standard output, standard error; without the variables of whoever runs the tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LONGHAUL_")}
    done = subprocess.run([build_folder() / program, *map(str, arguments)], capture_output=True, text=True, env=environment | variables)
    return done.returncode, done.stdout, done.stderr


class ConfiguredFleet(Fleet):
    """All that its programs are told is in files."""

    def write(self, name, settings):
        path = pathlib.Path(self.folder) / f"{name}.yaml"
        path.write_text(f"# {name}\n" + "".join(f"{option}: {json.dumps(value)}\n" for option, value in settings.items()))
        return ["--config", str(path)]

    def start_gateway(self):
        self.keys = write_private(pathlib.Path(self.folder) / "keys", key_line("first", "key-1"))
        flags = self.write("gateway", {"model": self.model, "listen": f"127.0.0.1:{self.port}", "fleet-listen": f"127.0.0.1:{self.fleet_port}",
                                       "workers": 1, "plan-delay-ms": 100, "renew-ms": 100, "api-key-file": self.keys, "sites": ["a", "b"]})
        self.gateway = Program("gateway", [self.gateway_program, *flags], self.folder)

    def start_worker(self, number):
        flags = self.write("worker", {"name": "w", "site": "a", "gateway": f"http://127.0.0.1:{self.fleet_port}", "listen": "127.0.0.1:0",
                                      "threads": 1, "cache-dir": self.cache_folder(number), "model": self.model})
        self.workers.append(Program("worker", [self.worker_program, *flags], self.folder))


class ServedByFiles(unittest.TestCase):
    def ask(self, fleet, key):
        body = json.dumps({"prompt": "The sky is", "max_tokens": 3}).encode()
        request = urllib.request.Request(f"{fleet.url}/v1/completions", body, {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_what_a_file_names_is_read_behind_the_sandbox(self):
        with ConfiguredFleet(workers=1) as fleet:
            self.assertEqual(self.ask(fleet, "key-1"), 200)
            self.assertEqual(self.ask(fleet, "key-2"), 401)
            write_private(fleet.keys, key_line("second", "key-2"))
            fleet.gateway.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "keys read again" in fleet.gateway.log_text(), "the keys are read again")
            self.assertEqual(self.ask(fleet, "key-2"), 200)
            if not is_sanitized():
                self.assertRegex(fleet.gateway.log_text(), r"sandbox seccomp=on")
            self.assertRegex(fleet.gateway.log_text(), r"configuration read file=\S+/gateway.yaml")


class Told(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name) / "g.yaml"

    def check(self, text, program="longhaul-gateway", *flags):
        self.file.write_text(text)
        return run(program, "--config", self.file, "--check-config", *flags)

    def test_a_sound_one(self):
        self.assertEqual(self.check(f"model: {need_model()}\n"), (0, "longhaul-gateway: nothing is wrong with the configuration\n", ""))
        self.assertEqual(self.check("site: x\n", "longhaul-worker"), (0, "longhaul-worker: nothing is wrong with the configuration\n", ""))

    def test_faults_of_the_text(self):
        status, _, said = self.check("modle: x\nmax-queue: [1]\nworkers: many\nworkers: 2\n")
        self.assertEqual((status, said.splitlines()), (2, [
            f"{self.file}:4: workers: is given twice, first on line 3: leave one of them out",
            f"{self.file}:1: unknown name modle: did you mean model?",
            f"{self.file}:2: max-queue: one value is wanted, and not a list",
            f"{self.file}:3: workers: 'many' is not a whole number",
            f"longhaul-gateway: --config {self.file}: 4 faults, told above"]))

    def test_faults_of_what_belongs_together(self):
        status, _, said = self.check(f"model: {need_model()}\n\nlisten: 0.0.0.0:8080\n")
        self.assertEqual(status, 2)
        self.assertTrue(said.startswith(f"{self.file}:3: --listen 0.0.0.0:8080 is reachable by others: give --api-key-file"), said)
        for option in ("listen", "fleet-listen"):
            status, _, said = self.check(f"model: {need_model()}\n{option}: 8080\n")
            self.assertEqual(status, 2)
            self.assertTrue(said.startswith(f"{self.file}:2: --{option}: "), said)
        status, _, said = self.check("gateway: ftp://x\n", "longhaul-worker")
        self.assertEqual(status, 2)
        self.assertTrue(said.startswith(f"{self.file}:1: --gateway: 'ftp://x' begins with neither"), said)

    def test_faults_of_the_files_that_it_names(self):
        status, _, said = self.check("api-key-file: /nowhere/keys\nmodel: /nowhere/model.gguf\ntls-cert: /nowhere/cert\ntls-key: /nowhere/key\n"
                                     "tls-ca: /nowhere/ca\n")
        self.assertEqual(status, 2)
        for line, path in ((1, "keys"), (2, "model.gguf"), (3, "cert")):
            self.assertRegex(said, rf"(?m)^{self.file}:{line}: .*/nowhere/{path}.*: No such file or directory")
        status, _, said = self.check("isa: sse\nmodel: /nowhere/model.gguf\n", "longhaul-worker")
        self.assertEqual(status, 2)
        self.assertRegex(said, rf"(?m)^{self.file}:1: .*'sse'")
        self.assertRegex(said, rf"(?m)^{self.file}:2: /nowhere/model.gguf")

    def test_a_flag_goes_before_the_environment_and_that_before_the_file(self):
        self.file.write_text(f"model: {need_model()}\nmax-queue: 1\ntraces: 1\nworkers: 1\n")
        status, said, _ = run("longhaul-gateway", "--print-config", "--workers", 3, LONGHAUL_CONFIG=str(self.file), LONGHAUL_TRACES="2", LONGHAUL_WORKERS="2")
        self.assertEqual(status, 0)
        for line in (f"max-queue: 1  # {self.file}:2\n", "traces: 2  # LONGHAUL_TRACES\n", "workers: 3  # --workers\n", "stages: 0  # default\n"):
            self.assertIn(line, said)

    def test_a_variable_that_is_no_option(self):
        status, _, said = run("longhaul-gateway", "--model", need_model(), "--check-config", LONGHAUL_LISTN="x")
        self.assertEqual(status, 0)
        self.assertIn("LONGHAUL_LISTN, which is no option: did you mean LONGHAUL_LISTEN?", said)


class Samples(unittest.TestCase):
    def test_each_line_is_an_option_s_default(self):
        for program, required in (("gateway", {"model": "x.gguf"}), ("worker", {})):
            with self.subTest(program), tempfile.TemporaryDirectory() as folder:
                lines = (SAMPLES / f"{program}.yaml").read_text().splitlines()
                text = "\n".join(line[1:] if line[:1] == "#" and line[1:2].isalpha() else line for line in lines)
                for option, value in required.items():
                    text = text.replace(f"\n{option}: PATH\n", f"\n{option}: {value}\n")
                path = pathlib.Path(folder) / "all.yaml"
                path.write_text(text)
                flags = [word for option, value in required.items() for word in (f"--{option}", value)]
                status, by_file, said = run(f"longhaul-{program}", "--config", path, "--print-config")
                self.assertEqual((status, said), (0, ""))
                _, by_default, _ = run(f"longhaul-{program}", *flags, "--print-config")
                values = [[line.split("  # ")[0] for line in text.splitlines()] for text in (by_file, by_default)]
                self.assertEqual(*values)
                self.assertGreater(by_file.count(f"# {path}:"), 20)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
