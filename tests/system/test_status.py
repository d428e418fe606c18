"""`longhaul-gateway status` and `doctor` on a real fleet: the page, in place on a terminal (a pty) and not, its JSON, and faults that were planted."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import unittest
import urllib.request

from api_keys import key_line, write_private
from fleet import Fleet
from joining import OwnFleet
from programs import PATIENCE_S, Program, build_folder, run_tests, wait_until

KEY = "a-secret-of-the-house"
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """A command on a pty of so many columns and lines."""

    def __init__(self, command, columns=80, lines=24, **environment):
        self.master, slave = pty.openpty()
        self.slave = slave  # kept open, so that its settings can be looked at when the command has ended
        self.resize(columns, lines)
        self.before = termios.tcgetattr(slave)
        self.output = b""
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # for Ctrl-C
                                        env={**os.environ, "TERM": "xterm", **environment})

    def resize(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.output += os.read(self.master, 65536)
        return self.output

    def wait_for(self, condition, what):
        try:
            wait_until(lambda: condition(self.read()), what)
        except TimeoutError:
            print(self.output)
            raise

    def type(self, keys):
        os.write(self.master, keys)

    def end(self):
        """Its exit status; what it has written is read meanwhile."""
        wait_until(lambda: [self.read(), self.process.poll() is not None][1], "the command ends")
        self.read()
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        os.close(self.master)


class StatusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="longhaul-status-")
        cls.key = write_private(os.path.join(cls.temporary.name, "key"), KEY + "\n")
        cls.keys = write_private(os.path.join(cls.temporary.name, "keys"), key_line("operator", KEY, "admin") + key_line("user", "other"))
        # More than any machine has: what doctor is to find.
        cls.fleet = Fleet(2, ["--api-key-file", cls.keys], ["--memory-bytes", "900T"]).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)
        cls.temporary.cleanup()

    def command(self, word, *flags, key=None):
        return [str(build_folder() / "longhaul-gateway"), word, "--url", self.fleet.url, "--api-key-file", key or self.key, *flags]

    def run_command(self, word, *flags, **more):
        return subprocess.run(self.command(word, *flags, **more), capture_output=True, text=True, timeout=PATIENCE_S)

    def status(self):
        done = self.run_command("status", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def findings(self):
        done = self.run_command("doctor", "--json")
        self.assertEqual(done.stderr, "")
        answer = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if answer["fine"] else 1)
        return answer["findings"]

    def terminal(self, command, *size, **environment):
        terminal = Terminal(command, *size, **environment)
        self.addCleanup(terminal.close)
        return terminal

    # ---- status ----

    def test_a_page_fits_80_columns_and_names_everybody(self):
        wait_until(lambda: self.status()["chains"][0]["holds_back"], "the chain is measured")
        done = self.run_command("status")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertNotIn("\x1b", done.stdout)
        self.assertIn("ready, 2 workers at 2 sites", lines[0])
        stages = [line.lstrip("* ").split() for line in lines if re.search(r" \d+-\d+ +ready ", line)]
        self.assertEqual([(s[0], s[1]) for s in stages], [("site-1", "worker-1"), ("site-2", "worker-2")], done.stdout)
        self.assertEqual(stages[0][2].split("-")[0], "0")
        self.assertEqual(int(stages[0][2].split("-")[1]) + 1, int(stages[1][2].split("-")[0]))
        self.assertEqual([line.split()[1] for line in lines if line.lstrip("* ").startswith("> ")], ["worker-1", "worker-2", "gateway"])
        self.assertEqual(len([line for line in lines if line.startswith("*")]), 1)
        self.assertIn("Prompts wait longest for", done.stdout)
        self.assertIn("A single stream's token takes", done.stdout)

    def test_tokens_a_second_are_those_of_a_stream(self):
        request = urllib.request.Request(
            self.fleet.url + "/v1/completions", json.dumps({"prompt": "Once", "max_tokens": 1500, "ignore_eos": True, "stream": True}).encode(),
            {"Content-Type": "application/json", "Authorization": "Bearer " + KEY})
        with urllib.request.urlopen(request) as answer:
            answer.readline()
            reader = threading.Thread(target=lambda: [None for _ in iter(answer.readline, b"")], daemon=True)
            reader.start()
            status = self.status()
            self.assertEqual(status["running"], 1)
            self.assertGreater(status["tokens_per_s"], 0)
            answer.fp.raw._sock.shutdown(2)
            reader.join()
        wait_until(lambda: self.status()["running"] == 0, "the stream has ended")
        self.assertEqual(self.status()["tokens_per_s"], 0)

    def test_what_is_wrong_is_said(self):
        stranger = write_private(os.path.join(self.temporary.name, "stranger"), "other\n")
        for flags, status, said in [(["--interval", "0"], 2, "--interval"), (["--url", "http://127.0.0.1:9"], 1, "cannot be asked"),
                                    (["--url", self.fleet.url + "/v1/", "--api-key-file", stranger], 1, "`admin`"),
                                    (["--api-key-file", "/does/not/exist"], 1, "/does/not/exist")]:
            done = self.run_command("status", *flags)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(said, done.stderr)

    # ---- --watch ----

    def test_a_terminal_is_drawn_in_place_and_given_back(self):
        for end in (b"q", b"\x03"):
            terminal = self.terminal(self.command("status", "--watch"), 80, 10)
            terminal.wait_for(lambda out: out.count(b"\x1b[H") >= 2, "it is drawn twice")
            self.assertTrue(terminal.output.startswith(ENTER))
            self.assertIn(b"\x1b[32mready", terminal.output)
            # As many lines as there are, so that nothing scrolls.
            self.assertEqual(terminal.output.split(b"\x1b[H")[1].count(b"\n"), 9)
            terminal.resize(70, 40)
            terminal.wait_for(lambda out: out.split(b"\x1b[H")[-1].count(b"\n") > 9 and out.endswith(b"\x1b[J"), "it has the new size")
            last = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", terminal.output.split(b"\x1b[H")[-1]).decode()
            self.assertLessEqual(max(map(len, last.splitlines())), 70)
            terminal.type(end)
            self.assertEqual(terminal.end(), 0)
            self.assertTrue(terminal.output.endswith(LEAVE), terminal.output[-80:])
            self.assertEqual(termios.tcgetattr(terminal.slave), terminal.before)

    def test_no_color_is_heeded(self):
        terminal = self.terminal(self.command("status", "--watch"), NO_COLOR="1")
        terminal.wait_for(lambda out: b"\x1b[J" in out, "it is drawn")
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)
        self.assertNotRegex(terminal.output, rb"\x1b\[[0-9;]*m")

    def test_pages_follow_each_other_elsewhere(self):
        for flags, seen in [((), "\n\nSmol"), (("--json",), "}\n{")]:
            with subprocess.Popen(self.command("status", "--watch", *flags), stdout=subprocess.PIPE, text=True) as watch:
                text = ""
                while text.count("\n") < 60 and seen not in text:
                    text += watch.stdout.read(1)
                watch.send_signal(signal.SIGTERM)
                self.assertEqual(watch.wait(PATIENCE_S), 0)
            self.assertIn(seen, text)
            self.assertNotIn("\x1b", text)

    # ---- doctor ----

    def test_a_planted_fault_is_found_among_what_is_fine(self):
        wait_until(lambda: self.status()["chains"][0]["holds_back"], "the chain is measured")
        findings = self.findings()
        fine = {f["check"] for f in findings if f["verdict"] == "fine"}
        # The rest depends on the machine that runs the tests.
        self.assertLessEqual({"gateway", "workers", "versions", "clocks", "hops", "model memory", "key files", "open files"}, fine, findings)
        memory = [f for f in findings if f["check"] == "memory" and f["verdict"] == "to_do"]
        self.assertEqual([f["subject"] for f in memory], ["worker-1", "worker-2"])
        self.assertIn("may take 900", memory[0]["found"])
        done = self.run_command("doctor")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"TO DO   memory        worker-1: may take 900")
        self.assertRegex(done.stdout, r"-> give it less with --memory-bytes")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    def test_keys_that_others_may_read_are_found(self):
        os.chmod(self.keys, 0o644)
        self.addCleanup(os.chmod, self.keys, 0o600)
        found = [f for f in self.findings() if f["check"] == "key files"]
        self.assertEqual([(f["subject"], f["verdict"]) for f in found], [(self.keys, "to_do")])
        self.assertIn("chmod 600", found[0]["to_do"])

    def test_a_gateway_that_is_not_there_is_the_finding(self):
        done = self.run_command("doctor", "--url", "http://127.0.0.1:9", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual([(f["check"], f["verdict"]) for f in answer["findings"]], [("gateway", "to_do")])
        self.assertIn("--url", answer["findings"][0]["to_do"])


class WorkerDoctorTest(unittest.TestCase):
    """Before a worker runs, and beside one that has joined. What else it says depends on the machine that runs the tests."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="longhaul-doctor-")
        cls.folder = cls.temporary.name
        cls.program = str(build_folder() / "longhaul-worker")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def look(self, *flags):
        """{check: (verdict, found, to do)}; of several the worst."""
        done = subprocess.run([self.program, "doctor", "--json", "--state-dir", self.folder + "/none", *flags], capture_output=True, text=True,
                              timeout=PATIENCE_S)
        self.assertEqual(done.stderr, "")
        answer = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if answer["fine"] else 1)
        return {f["check"]: (f["verdict"], f["found"], f["to_do"]) for f in answer["findings"]}

    def test_each_fault_is_found(self):
        with socket.socket() as listener, socket.socket() as silent:
            listener.bind(("127.0.0.1", 0))
            silent.bind(("127.0.0.1", 0))
            listener.listen()
            there, nowhere = (f"https://127.0.0.1:{s.getsockname()[1]}" for s in (listener, silent))
            found = self.look("--gateway", there, "--memory-bytes", "1M", "--kv-bytes", "1M", "--cache-dir", self.folder + "/to/come")
            self.assertEqual([found[check][0] for check in ("membership", "gateway", "memory", "open files")], ["unknown", "fine", "fine", "fine"])
            self.assertIn(found["disk"][0], ("fine", "to_do"))
            faults = self.look("--gateway", nowhere, "--memory-bytes", "900T", "--isa", "none", "--cache-dir", "/proc")
            self.assertEqual({check for check, (verdict, _, _) in faults.items() if verdict == "to_do"} - {"idle links", "tcp buffers", "sandbox"},
                             {"gateway", "memory", "instructions", "disk"})
            self.assertIn("Connection refused", faults["gateway"][1])
            self.assertIn("--fleet-listen", faults["gateway"][2])
        self.assertEqual(self.look("--isa", "reference")["instructions"][0], "to_do")
        said = subprocess.run([self.program, "doctor"], capture_output=True, text=True).stdout
        self.assertLessEqual(max(map(len, said.splitlines())), 80)

    def check_gateway_alone(self, fleet):
        """Nobody has joined yet: requests cannot be served, and the CA's files are its owner's."""
        words = ["--url", f"http://127.0.0.1:{fleet.api_port}"]
        done = subprocess.run([fleet.program, "status", *words], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn(": loading, 0 workers at 0 sites", done.stdout)
        done = subprocess.run([fleet.program, "doctor", "--json", *words], capture_output=True, text=True, timeout=PATIENCE_S)
        found = {f["check"]: f for f in json.loads(done.stdout)["findings"]}
        self.assertEqual([found[check]["verdict"] for check in ("gateway", "workers", "hops", "key files", "certificates")],
                         ["to_do", "to_do", "unknown", "fine", "fine"], done.stdout)
        self.assertIn("longhaul-worker doctor", found["workers"]["to_do"])
        self.assertRegex(found["certificates"]["found"], r"^gateway (29|30) days left$")

    def test_a_machine_that_has_joined_is_judged_by_what_it_keeps(self):
        fleet = OwnFleet(os.path.join(self.folder), ["--metrics-listen", "off"])
        self.addCleanup(fleet.stop)
        state = os.path.join(self.folder, "worker")
        self.check_gateway_alone(fleet)
        words = fleet.run("token", "--site", "office").split()
        line = words[words.index("join"):][:3]
        worker = Program("worker", [self.program, *line, "--state-dir", state, "--listen-tls", "127.0.0.1:0", "--threads", "1", "--cache-dir",
                                    self.folder + "/cache", "--metrics-listen", "off"], self.folder)
        self.addCleanup(worker.stop)
        wait_until(lambda: os.path.exists(state + "/current/certificate.pem"), "it has joined")
        found = self.look("--state-dir", state)
        self.assertEqual([found[check][0] for check in ("membership", "gateway", "certificates")], ["fine"] * 3, found)
        self.assertIn(f"127.0.0.1:{fleet.port}", found["gateway"][1])
        self.assertRegex(found["certificates"][1], r"^(29|30) days left$")
        os.chmod(state + "/current/key.pem", 0o644)
        found = self.look("--state-dir", state)
        self.assertEqual(found["membership"][0], "to_do")
        self.assertIn("key.pem", found["membership"][1])


if __name__ == "__main__":
    run_tests(sys.modules["__main__"])
