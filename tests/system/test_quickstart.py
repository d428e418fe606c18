"""deploy/quickstart as a newcomer uses it, with programs that are built already: it answers, keeps what it was told while it runs, and leaves
nothing running where it fails."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

from programs import build_folder, free_port, need_model, run_tests

try:
    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "truth"))
    from small_model import MODELS, Type, Writer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

QUICKSTART = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "quickstart"
WORKERS = 2


class Quickstart(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="longhaul-quickstart-")
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(self.run_it, "stop")
        self.port = free_port(2 + WORKERS)

    def run_it(self, *words):
        home = {f"XDG_{name}_HOME": f"{self.folder.name}/{name}" for name in ("STATE", "CACHE")}
        done = subprocess.run([QUICKSTART, *map(str, words)], env={**os.environ, **home}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def start(self, *words):
        return self.run_it("--programs", build_folder(), *words)

    def pids(self):
        return re.findall(r"running, pid (\d+)", self.run_it("status")[1])

    def test_asks_and_keeps_what_runs(self):
        status, text = self.start("--model", need_model(), "--port", self.port, "--workers", WORKERS, "--ask", "What is a lighthouse?")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"> What is a lighthouse\?\n\n\w+")
        self.assertIn(f"http://127.0.0.1:{self.port}/v1/chat/completions", text)
        pids = self.pids()
        self.assertEqual(len(pids), 1 + WORKERS)
        status, text = self.start("--ask", "And what is a ship?")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"> And what is a ship\?\n\n\w+")
        self.assertEqual(self.pids(), pids)
        self.run_it("stop")
        self.assertEqual(self.pids(), [])

    def test_a_port_that_is_taken(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.port + 1))
            other.listen()
            status, text = self.start("--model", need_model(), "--port", self.port, "--workers", WORKERS)
        self.assertEqual(status, 1, text)
        self.assertIn("address already in use", text)
        self.assertIn("--port N takes others", text)
        self.assertEqual(self.pids(), [])

    def test_a_model_without_a_template(self):
        model = pathlib.Path(self.folder.name) / "small.gguf"
        Writer(model, 7, Type.Q8_0).write(*MODELS["qwen3"])
        status, text = self.start("--model", model, "--port", self.port, "--workers", WORKERS)
        self.assertEqual(status, 0, text)
        self.assertIn("/v1/completions", text)
        self.assertNotIn("/v1/chat/completions", text)

    def test_words_that_are_wrong(self):
        for words, message in (
            (("--model", "/nowhere/model.gguf"), "no such file: /nowhere/model.gguf"),
            (("--port", "eighty"), "take numbers"),
            (("--port", "65535"), "leaves no ports"),
            (("--portt", "1"), "no such word: --portt"),
            (("--port",), "--port needs a value"),
        ):
            status, text = self.start(*words)
            self.assertNotEqual(status, 0)
            self.assertIn(message, text)
        self.assertEqual(self.pids(), [])


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
