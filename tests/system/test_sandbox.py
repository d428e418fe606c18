"""What gateway and workers have given up, seen from outside; and that a whole life works within what is left: a gateway looked up by name, weights
fetched, a worker killed and back, keys replaced and read again, digests and traces. Certificates have tests of their own, in the same sandbox."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from api_keys import key_line, write_private
from fleet import Fleet
from programs import SKIPPED, Program, is_sanitized, run_tests, wait_until

IN_FORCE = r"sandbox seccomp=on landlock=abi\d+ no_new_privs=on dumpable=off capabilities="
KEY = "a-key-of-the-test"


def thread_fields(pid, field):
    """What each thread of the process says of itself in /proc."""
    found = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            found |= set(re.findall(rf"^{field}:\s*(\d+)$", (task / "status").read_text(), re.M))
        except (FileNotFoundError, ProcessLookupError):
            pass  # the thread has ended
    return found


class NamedFleet(Fleet):
    """Its workers look their gateway up by name."""

    def start_worker(self, number):
        self.worker_flags = ["--gateway", f"http://localhost:{self.fleet_port}"]
        return super().start_worker(number)


class Sandbox(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="longhaul-sandbox-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.keys = cls.folder / "own" / "keys"
        cls.keys.parent.mkdir()
        write_private(cls.keys, key_line("alice", KEY))
        cls.fleet = NamedFleet(workers=2, fetches=True, gateway_flags=["--api-key-file", cls.keys, "--logits-digest"])
        cls.enterClassContext(cls.fleet)

    def ask(self, key=KEY, **more):
        """Status and answer."""
        body = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, **more}
        request = urllib.request.Request(f"{self.fleet.url}/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def test_every_thread_has_given_up_the_same(self):
        self.ask()
        for program in self.fleet.programs():
            self.assertGreater(len(list(pathlib.Path(f"/proc/{program.pid}/task").iterdir())), 1)
            self.assertEqual(thread_fields(program.pid, "NoNewPrivs"), {"1"}, program.name)
            self.assertEqual(thread_fields(program.pid, "Seccomp"), {"2"}, program.name)
            self.assertRegex(program.log_text(), IN_FORCE)

    def test_a_life_in_it_is_whole(self):
        status, answer = self.ask()
        self.assertEqual(status, 200, answer)
        self.assertTrue(self.fleet.drawn(KEY))
        victim = self.fleet.workers[1]
        victim.kill()
        self.fleet.start_worker(1)
        wait_until(lambda: self.ask()[0] == 200, "it answers again")
        self.assertEqual(self.ask()[1]["choices"][0]["text"], answer["choices"][0]["text"])
        for program in self.fleet.programs():
            self.assertTrue(program.is_running(), program.log_text()[-2000:])
            self.assertNotIn("Function not implemented", program.log_text())
            self.assertNotIn("Permission denied", program.log_text())

    def hang_up(self, words):
        gateway = self.fleet.gateway
        before = len(gateway.log_text())
        gateway.process.send_signal(signal.SIGHUP)
        return wait_until(lambda: re.search(f".*{words}.*", gateway.log_text()[before:]), f"the log says {words}")[0]

    def test_what_is_replaced_is_read_again_but_only_where_it_was(self):
        """The gateway is made to open another file, by a link: that is the sandbox seen from outside."""
        other = "another-key"
        write_private(self.keys, key_line("alice", KEY) + key_line("bob", other))
        self.hang_up("keys read again")
        self.assertEqual(self.ask(other)[0], 200)
        elsewhere = write_private(self.folder / "elsewhere", key_line("mallory", "third-key"))
        aside = self.keys.parent / "aside"
        os.rename(self.keys, aside)
        self.addCleanup(os.replace, aside, self.keys)
        os.symlink(elsewhere, self.keys)
        line = self.hang_up("keys stay as they were")
        self.assertIn("Permission denied", line)
        self.assertEqual(self.ask("third-key")[0], 401)
        self.assertEqual(self.ask(other)[0], 200)

    def test_a_model_is_read_inside(self):
        """What a program says of a file that is no model comes after it has given up the rest."""
        hostile = self.folder / "hostile.gguf"
        hostile.write_bytes(b"GGUF" + bytes(range(256)) * 8)
        ended = subprocess.run([self.fleet.gateway_program, "--model", hostile, "--listen", "127.0.0.1:0", "--fleet-listen", "127.0.0.1:0"],
                               capture_output=True, text=True, timeout=300)
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertRegex(ended.stderr, rf"(?s){IN_FORCE}.*longhaul-gateway: [^\n]*hostile.gguf")

    def test_a_chat_template_is_read_inside(self):
        template = self.folder / "template.jinja"
        template.write_text("{{ messages[0].content }}")
        gateway = Program("templated", [self.fleet.gateway_program, "--model", self.fleet.model, "--listen", "127.0.0.1:0", "--fleet-listen", "127.0.0.1:0",
                                        "--chat-template", template], self.folder)
        try:
            wait_until(lambda: "listening" in gateway.log_text() or not gateway.is_running(), "it serves")
            self.assertRegex(gateway.log_text(), rf"(?s){IN_FORCE}.*listening")
        finally:
            self.assertEqual(gateway.stop(), 0)

    def test_off_is_off_and_says_so(self):
        worker = Program("outside", [self.fleet.worker_program, "--name", "outside", "--listen", "127.0.0.1:0", "--gateway", "http://127.0.0.1:1", "--cache-dir",
                                     self.folder / "cache", "--threads", "1", "--drain-timeout", "0", "--sandbox", "off"], self.folder)
        try:
            wait_until(lambda: "started" in worker.log_text(), "it runs")
            self.assertRegex(worker.log_text(), r"warn  worker: sandbox off \(--sandbox off\)")
            self.assertEqual((thread_fields(worker.pid, "NoNewPrivs"), thread_fields(worker.pid, "Seccomp")), ({"0"}, {"0"}))
        finally:
            self.assertEqual(worker.stop(), 0)


if __name__ == "__main__":
    if is_sanitized():
        print("skipped: sanitizers stay outside")
        sys.exit(SKIPPED)
    run_tests(sys.modules[__name__])
