"""What a newcomer types first, and what goes wrong then: run and chat, the wrong port, a token that nobody would serve, a name that is not there."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

from fleet import Fleet
from programs import PATIENCE_S, Program, build_folder, free_port, need_model, run_tests, wait_until
from raw_http import ask
from test_status import Terminal

GATEWAY = build_folder() / "longhaul-gateway"


class Words(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="longhaul-words-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        self.models = self.folder / "models"
        self.models.mkdir()
        (self.models / "small.gguf").symlink_to(need_model())

    def run_it(self, *words, program=GATEWAY, told="", **environment):
        """Status, standard output and standard error."""
        done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, input=told, timeout=PATIENCE_S,
                              env={**os.environ, "HOME": str(self.folder), "XDG_STATE_HOME": "", "XDG_CACHE_HOME": "", **environment})
        return done.returncode, done.stdout, done.stderr

    def children(self):
        """Processes that a command of this test has left."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"--model\0{self.models}".encode() in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
        return found


class Run(Words):
    FLAGS = ("--temperature", "0", "--max-tokens", "12", "--threads", "1")

    def serve(self, *words, told=""):
        status, answer, error = self.run_it("run", *words, *self.FLAGS, "--models-dir", self.models, told=told)
        self.assertEqual(status, 0, error)
        self.assertEqual(self.children(), [])
        return answer

    def test_one_answer_and_nothing_is_left(self):
        asked = "What is a lighthouse?"
        by_word = self.serve("small", asked)
        self.assertRegex(by_word, r"\w.*\n$")
        self.assertEqual(self.serve(self.models / "small.gguf", told=asked + "\n"), by_word)
        self.assertNotEqual(self.serve("small", asked, "--system", "You are a pirate."), by_word)

    def test_words_that_are_wrong(self):
        for words, status, error in (((), 2, "which model?"), (("nothing", "hi"), 1, "there is no model nothing in"), (("./none.gguf", "hi"), 1, "no such file"),
                                     (("small", "hi", "--temperature", "9"), 1, "--temperature 9 is no number from 0 to 2"),
                                     (("small",), 1, "nothing is asked"), (("hf:nonsense", "hi"), 1, "hf:")):
            with self.subTest(words=words):
                told = self.run_it("run", *words, *(["--models-dir", self.models] if words else []))
                self.assertEqual(told[:2], (status, ""), told)
                self.assertIn(error, told[2])
        self.assertEqual(self.children(), [])

    def test_a_worker_that_is_not_there_is_said(self):
        alone = shutil.copy(GATEWAY, self.folder)
        status, _, error = self.run_it("run", "small", "hi", "--models-dir", self.models, program=alone, PATH="/nowhere")
        self.assertEqual(status, 1)
        self.assertIn("longhaul-worker is neither beside longhaul-gateway nor in PATH: install it", error)

    def test_what_is_no_model_is_said_as_its_gateway_says_it(self):
        (self.models / "bad.gguf").write_text("nothing of the kind")
        status, _, error = self.run_it("run", "bad", "hi", "--models-dir", self.models)
        self.assertEqual(status, 1)
        self.assertIn("bad.gguf", error)
        self.assertIn("longhaul-gateway has ended, and says above why", error)

    def test_a_conversation_in_a_terminal(self):
        terminal = Terminal([str(GATEWAY), "run", str(self.models / "small.gguf"), "--temperature", "0", "--threads", "1"], columns=200)
        self.addCleanup(terminal.close)

        def says(words):
            terminal.wait_for(lambda output: words in output, words)
            terminal.output = b""
        says(b">>> ")
        self.assertEqual(len(self.children()), 2)
        terminal.type(b"/help\n")
        says(b"/clear ")
        terminal.type(b"/nonsense\n")
        says(b"There is no command /nonsense")
        terminal.type(b'"""Two lines\n')
        says(b"... ")
        terminal.type(b'are one message."""\n')
        terminal.wait_for(lambda output: len(output) > 40, "it answers")
        terminal.type(b"\x03")  # nobody waits for its end
        says(b">>> ")
        terminal.type(b"\x03")
        says(b"Ctrl-D or /bye leaves")
        terminal.type(b"/system Answer in one word.\n")
        says(b">>> ")
        terminal.type(b"/bye\n")
        self.assertEqual(terminal.end(), 0)
        self.assertEqual(self.children(), [])

    def test_nothing_is_left_by_one_who_is_killed(self):
        program = Program("run", [GATEWAY, "run", self.models / "small.gguf", "Tell me a very long story."], self.folder)
        wait_until(lambda: len(self.children()) == 2, "both run")
        program.process.send_signal(signal.SIGKILL)
        wait_until(lambda: not self.children(), "both have ended")
        program.stop()


class Chat(Words):
    def test_a_question_with_a_key(self):
        key, line = "sesam-open-1234567890", self.folder / "keys"
        (self.folder / "key").write_text(key + "\n")
        (self.folder / "key").chmod(0o600)
        line.write_text(self.run_it("key", "alice", "--from", self.folder / "key")[1])
        line.chmod(0o600)
        words = ("chat", "What is a lighthouse?", "--temperature", "0", "--max-tokens", "8")
        with Fleet(1, ["--api-key-file", line]) as fleet:
            expected = ask(fleet.port, "POST", "/v1/chat/completions",
                           {"messages": [{"role": "user", "content": words[1]}], "temperature": 0, "max_tokens": 8},
                           [("Authorization", f"Bearer {key}")]).json()["choices"][0]["message"]["content"] + "\n"
            for environment in ({"LONGHAUL_API_KEY": key}, {"OPENAI_API_KEY": key}, {"LONGHAUL_API_KEY": key, "OPENAI_API_KEY": "another"}):
                self.assertEqual(self.run_it(*words, LONGHAUL_URL=fleet.url, **environment), (0, expected, ""))
            self.assertEqual(self.run_it(*words, "--api-key-file", self.folder / "key", "--url", fleet.url)[:2], (0, expected))
            status, _, error = self.run_it(*words, LONGHAUL_URL=fleet.url, OPENAI_API_KEY="")
            self.assertEqual(status, 1)
            self.assertIn("wants a key: set LONGHAUL_API_KEY or OPENAI_API_KEY", error)


class Ports(Words):
    def test_the_wrong_one_is_told_with_the_right_one(self):
        with Fleet(1) as fleet:
            for word in (["check"], ["status"], ["doctor"], ["trace", "x"], ["chat", "hi"]):
                status, told, error = self.run_it(*word, "--url", f"http://127.0.0.1:{fleet.fleet_port}")
                self.assertEqual(status, 1)
                self.assertIn(f"that is the fleet port, the API is at {fleet.url}", re.sub(r"\s+", " ", told + error), word)
            worker = re.search(r"plain=127.0.0.1:(\d+)", fleet.workers[0].log_text())[1]
            _, _, error = self.run_it("check", "--url", f"http://127.0.0.1:{worker}")
            self.assertIn(f"what listens there is no API, but longhaul-worker, process {fleet.workers[0].pid}", error)
            _, _, error = self.run_it("check", "--url", f"http://127.0.0.1:{free_port()}")
            self.assertRegex(error, "nobody listens there; a gateway has its API at http://127.0.0.1:")
            # The same for who would listen there.
            status, _, error = self.run_it("--model", need_model(), "--listen", f"127.0.0.1:{fleet.port}", "--fleet-listen", "127.0.0.1:0")
            self.assertEqual(status, 1)
            self.assertIn(f"address already in use, by longhaul-gatewa, process {fleet.gateway.pid}; --listen HOST:PORT gives another one", error)
            status, _, error = self.run_it("--listen", f"127.0.0.1:{worker}", program=build_folder() / "longhaul-worker")
            self.assertEqual(status, 1)
            self.assertIn(f"by longhaul-worker, process {fleet.workers[0].pid}; --listen HOST:PORT", error)

    def check_waiting(self, name, arguments, port, is_open):
        """Its port is some connection's own end: a signal ends what waits for it, and without it is waited until the connection ends."""
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
            client.bind(("127.0.0.1", port))
            client.connect(server.getsockname())
            # Closed by a reset: the port does not rest for a minute.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            waits = f'address=127.0.0.1:{port} by="a connection to 127.0.0.1:{server.getsockname()[1]} of '
            for is_ended in (True, False):
                program = Program(f"{name}-{is_ended}", [build_folder() / name, *arguments], self.folder)
                try:
                    wait_until(lambda: waits in program.log_text(), "it says that it waits")
                    if is_ended:
                        program.ask_to_stop()
                        self.assertEqual(program.wait(), -signal.SIGTERM)
                    else:
                        client.close()
                        wait_until(lambda: is_open in program.log_text(), "it listens")
                finally:
                    program.stop()

    def test_some_connections_is_waited_for(self):
        port = free_port()
        self.check_waiting("longhaul-gateway", ["--model", need_model(), "--listen", "127.0.0.1:0", "--fleet-listen", f"127.0.0.1:{port}"], port,
                           f"fleet_port={port} ")
        self.check_waiting("longhaul-worker", ["--gateway", f"http://127.0.0.1:{free_port()}", "--name", "one", "--site", "here", "--cache-dir",
                                               self.folder / "cache", "--listen", f"127.0.0.1:{port}"], port, f"plain=127.0.0.1:{port} ")

    def test_a_body_that_curl_calls_a_form(self):
        with Fleet(1) as fleet:
            done = subprocess.run(["curl", "-sS", f"{fleet.url}/v1/completions", "-d", '{"prompt": "Once", "max_tokens": 1}'], capture_output=True, text=True)
            self.assertIn("choices", json.loads(done.stdout), done)
            model = json.loads(fleet.get("/v1/models")[1])["data"][0]
            context = json.loads(fleet.get("/fleet")[1])["model"]
            self.assertEqual(model["max_model_len"], context["context_served"])
            self.assertEqual(model["meta"]["n_ctx"], context["context_served"])
            self.assertEqual(model["meta"]["n_ctx_train"], 8192)
        with Fleet(1, worker_flags=["--kv-bytes", "200M"]) as fleet:
            model = json.loads(fleet.get("/v1/models")[1])["data"][0]
            self.assertLess(model["max_model_len"], 8192)
            done = subprocess.run([GATEWAY, "doctor", "--url", fleet.url, "--json"], capture_output=True, text=True)
            told = next(f["found"] for f in json.loads(done.stdout)["findings"] if f["check"] == "context")
            self.assertRegex(told, rf"^{model['max_model_len']} positions of 8192, for which worker worker-1 has room; --kv-bytes \d+M at each worker, or --kv-type")
            wanted = re.search(r"--kv-bytes (\d+M)", told)[1]
        with Fleet(1, worker_flags=["--kv-bytes", wanted]) as fleet:
            self.assertEqual(json.loads(fleet.get("/v1/models")[1])["data"][0]["max_model_len"], 8192)


class Tokens(Words):
    def test_none_is_made_that_nobody_would_serve(self):
        state = self.folder / "state"
        status, told, error = self.run_it("token", "--site", "office", "--state-dir", state)
        self.assertEqual((status, told), (1, ""))
        self.assertIn("no gateway serves a fleet with a CA from", error)
        self.assertIn("--fleet-listen 0.0.0.0:7100", error)
        self.assertFalse(state.exists())
        # A fleet that was there once, and now a gateway without a CA in its place.
        port, api = free_port(), free_port()

        def gateway(*flags):
            before = (self.folder / "gateway.log").read_text().count("listening ") if (self.folder / "gateway.log").exists() else 0
            program = Program("gateway", [GATEWAY, "--model", need_model(), "--listen", f"127.0.0.1:{api}", "--fleet-listen", f"127.0.0.1:{port}", *flags], self.folder)
            self.addCleanup(program.stop)
            wait_until(lambda: program.log_text().count("listening ") > before, "it listens")
            return program
        program = gateway("--state-dir", state)
        status, told, error = self.run_it("token", "--site", "office", "--state-dir", state)
        self.assertEqual(status, 0, error)
        self.assertRegex(told, rf"^longhaul-worker join https://127.0.0.1:{port} lh1\.")
        self.assertNotIn("does not run now", error)
        self.assertNotRegex(program.log_text(), "WARN|refused")
        program.stop()
        status, told, error = self.run_it("token", "--site", "office", "--state-dir", state)
        self.assertEqual(status, 0, error)
        self.assertIn(f"The gateway does not run now (nobody listens at 127.0.0.1:{port})", error)
        gateway()
        status, told, error = self.run_it("token", "--site", "office", "--state-dir", state)
        self.assertEqual((status, told), (1, ""))
        self.assertIn(f"what listens at 127.0.0.1:{port} has no CA", error)
        for what, key in (("tokens", "tokens"), ("members", "authorities")):
            listed = json.loads(self.run_it(what, "--json", "--state-dir", state)[1])
            self.assertTrue(listed[key], listed)
        self.assertEqual(json.loads(self.run_it("tokens", "--json", "--state-dir", state)[1])["tokens"][0]["state"], "open")

    def test_one_that_is_malformed_leaves_nothing_behind(self):
        before = sorted(self.folder.rglob("*"))
        for words in (("https://127.0.0.1:7100", "lh1.nonsense"), ("127.0.0.1:7100", "lh1.nonsense"), ("https://127.0.0.1:7100",)):
            status, told, error = self.run_it("join", *words, program=build_folder() / "longhaul-worker")
            self.assertEqual((status, told), (2, ""))
            self.assertIn("join: ", error)
        status, _, _ = self.run_it("join", "https://127.0.0.1:7100", "lh1.nonsense", "--state-dir", self.folder / "state", program=build_folder() / "longhaul-worker")
        self.assertEqual(status, 2)
        self.assertEqual(sorted(self.folder.rglob("*")), before)


class Models(Words):
    def test_lists_for_programs_and_names_that_are_not_there(self):
        (self.models / "bad.gguf").write_text("nothing of the kind")
        listed = json.loads(self.run_it("models", "--json", "--models-dir", self.models)[1])
        self.assertEqual(listed["folder"], str(self.models))
        bad, small = sorted(listed["models"], key=lambda model: model["name"])
        self.assertEqual((bad["name"], bad["usable"]), ("bad", False))
        self.assertTrue(bad["error"])
        self.assertEqual((small["name"], small["usable"], small["layers"], small["quantization"]), ("small", True, 30, "Q4_1"))
        self.assertEqual(json.loads(self.run_it("models", "--json", "--models-dir", self.folder / "none")[1])["models"], [])
        status, _, error = self.run_it("rm", "nope", "--models-dir", self.models)
        self.assertEqual(status, 1)
        self.assertIn("there is no model nope in", error)
        self.assertNotIn("--yes", error)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
