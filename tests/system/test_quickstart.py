"""deploy/quickstart as a newcomer uses it, with programs that are built already: it answers, keeps what it was told while it runs, and leaves
nothing running where it fails."""

import contextlib
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

    def environment(self):
        return {**os.environ, **{f"XDG_{name}_HOME": f"{self.folder.name}/{name}" for name in ("STATE", "CACHE", "DATA")}}

    def run_it(self, *words):
        done = subprocess.run([QUICKSTART, *map(str, words)], env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
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

    def test_beside_something_else_it_takes_other_ports_and_says_so(self):
        """And its model is where the gateway's commands look, too."""
        model = pathlib.Path(need_model())
        models = pathlib.Path("/var/lib/longhaul/models" if os.geteuid() == 0 and os.path.isdir("/var/lib/longhaul/models")
                              else f"{self.folder.name}/DATA/longhaul/models")
        models.mkdir(parents=True, exist_ok=True)
        if not (models / model.name).exists():
            (models / model.name).symlink_to(model)
        with socket.socket() as other:
            with contextlib.suppress(OSError):  # then somebody else has it
                other.bind(("127.0.0.1", 8080))
                other.listen()
            status, text = self.start("--workers", 1)
        self.assertEqual(status, 0, text)
        said = re.search(r"another program has one of the ports 8080 to 8082: this takes (\d+) to (\d+)", text)
        url = f"http://127.0.0.1:{said[1]}"
        self.assertEqual(int(said[2]), int(said[1]) + 2)
        self.assertIn(f"chat --url {url}\n", text)
        self.assertIn(f"export LONGHAUL_URL={url} ", text)

        def command(*words, **more):
            done = subprocess.run([build_folder() / "longhaul-gateway", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                  env={**self.environment(), **more})
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        self.assertEqual(command("check", LONGHAUL_URL=url), '{"status":"ok"}\n')
        self.assertIn(model.name.removesuffix(".gguf"), command("models"))

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
