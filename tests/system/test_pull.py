"""longhaul-gateway pull, models and rm, against a hub that cuts, changes, lies, redirects, refuses; and a disk that is too small."""

import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import gguf
import numpy

from gguf_parts import split
from model_hub import Hub
from programs import build_folder, free_port, need_file, run_tests
from test_status import Terminal

TOKEN = "hf_testtoken"


def make_model(path, seed=1, rows=1900):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(512)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    random_numbers = numpy.random.default_rng(seed)
    for number in range(4):
        writer.add_tensor(f"blk.{number}.weight", random_numbers.standard_normal((rows // 4, 256), numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return pathlib.Path(path).read_bytes()


class Pull(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = need_file(build_folder() / "longhaul-gateway", "longhaul-gateway is not built")
        cls.temporary = tempfile.TemporaryDirectory(prefix="longhaul-pull-")
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.whole = cls.folder / "whole.gguf"
        cls.content = make_model(cls.whole)
        cls.other = make_model(cls.folder / "other.gguf", seed=2)
        cls.part_paths = split(cls.whole, cls.folder, "big-Q8_0", 3)
        cls.hub = Hub().__enter__()
        cls.environment = {name: text for name, text in os.environ.items() if "proxy" not in name.lower() and not name.startswith("LONGHAUL")}

    @classmethod
    def tearDownClass(cls):
        cls.hub.__exit__(None, None, None)
        cls.temporary.cleanup()

    def setUp(self):
        self.hub.files.clear()
        self.hub.requests.clear()
        self.models = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.file = self.hub.add("tiny-Q4_K_M.gguf", self.content)

    def command(self, *words, **more):
        return subprocess.run([self.program, *words], capture_output=True, text=True, env=self.environment, stdin=subprocess.DEVNULL, timeout=300, **more)

    def pull(self, what=None, *flags):
        done = self.command("pull", what or f"{self.hub.url}/tiny-Q4_K_M.gguf", "--models-dir", str(self.models), "--hub-url", self.hub.url, "--tries", "4",
                            *flags)
        self.events = [json.loads(line) for line in done.stdout.splitlines()]
        return done

    def assert_pulled(self, done, content=None, name="tiny-Q4_K_M.gguf"):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.models / name).read_bytes(), content or self.content)
        self.assertEqual([path.name for path in self.models.iterdir() if ".part" in path.name], [])
        self.assertIn(self.events[-1]["event"], ("done", "present"))

    def assert_refused(self, done, words, part_bytes=None):
        """part_bytes: what is kept; None: nothing."""
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(words, done.stderr)
        self.assertFalse((self.models / "tiny-Q4_K_M.gguf").exists())
        part = self.models / "tiny-Q4_K_M.gguf.part"
        self.assertEqual(part.stat().st_size if part.exists() else None, part_bytes)

    def test_it_goes_on_after_twenty_cuts(self):
        size = len(self.content)
        self.file.cuts = [1, 7, 24, 100, 5000] + [size * number // 15 - 3 for number in range(1, 16)]
        offsets = list(self.file.cuts)
        self.assert_pulled(self.pull(None, "--tries", "30"))
        asked = self.hub.asked("tiny-Q4_K_M.gguf")
        self.assertEqual([int(headers["Range"][6:-1]) for headers in asked[1:]], offsets)
        self.assertEqual({headers["If-Range"] for headers in asked[1:]}, {self.file.etag})
        self.assertEqual(self.events[0], {"event": "file", "name": "tiny-Q4_K_M.gguf", "bytes": 0})
        self.assertEqual(self.pull().returncode, 0)  # and a second time nothing is fetched
        self.assertEqual((self.events[-1]["event"], len(self.hub.asked("tiny-Q4_K_M.gguf"))), ("present", 21))

    def test_on_a_terminal_a_bar_grows_in_place(self):
        self.file.pause_s = 0.04
        environment = {**self.environment, "COLUMNS": ""}
        terminal = Terminal([self.program, "pull", f"{self.hub.url}/tiny-Q4_K_M.gguf", "--models-dir", str(self.models)], columns=100, **environment)
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.end(), 0)
        drawn = terminal.output.decode().split("\r\x1b[K")
        bars = [re.search(r"\[(#* *)\] +(\d+) % +\d+\.\d\d of \d+\.\d\d GB +\d+\.\d MB/s( \d\d:\d\d)?$", text) for text in drawn]
        bars = [bar for bar in bars if bar]
        self.assertGreater(len(bars), 2, terminal.output)
        self.assertEqual({len(bar[1]) for bar in bars}, {40})
        filled, percents = [bar[1].count("#") for bar in bars], [int(bar[2]) for bar in bars]
        self.assertEqual((filled, percents), (sorted(filled), sorted(percents)))
        self.assertLess(filled[0], filled[-1])
        # The bar is gone in the end, and no line of JSON was written.
        self.assertNotIn("#", drawn[-1])
        self.assertNotIn("{", terminal.output.decode())

    def test_another_run_takes_up_the_part(self):
        self.file.cuts = [300000]
        self.assert_refused(self.pull(None, "--tries", "1"), "bytes", part_bytes=300000)
        for words in (["models"], ["--model", "tiny-Q4_K_M", "--listen", f"127.0.0.1:{free_port()}"]):
            told = self.command(*words, "--models-dir", str(self.models))
            self.assertIn("not here as a whole yet", told.stdout + told.stderr)
        with open(self.models / "tiny-Q4_K_M.gguf.part", "ab") as part:
            fcntl.flock(part, fcntl.LOCK_EX)
            self.assert_refused(self.pull(), "another process is pulling it", part_bytes=300000)
        self.assert_pulled(self.pull())
        self.assertEqual(self.hub.asked("tiny-Q4_K_M.gguf")[1]["Range"], "bytes=300000-")

    def test_a_file_that_changes_begins_anew(self):
        for heeds in (True, False):
            with self.subTest(heeds_if_range=heeds):
                self.setUp()
                self.file.heeds_if_range = heeds
                self.file.cuts, self.file.changes = [700000], (self.other, '"other"')
                self.assert_pulled(self.pull(), self.other)
                self.assertTrue(any("has changed" in event.get("text", "") for event in self.events), self.events)

    def test_no_bytes_are_mixed_without_a_strong_etag(self):
        self.file.etag = 'W/"weak"'
        self.file.cuts, self.file.changes = [700000], (self.other, 'W/"weak"')
        self.assert_pulled(self.pull(), self.other)

    def test_lies_about_the_length(self):
        for lie in (1000, -1000, 5 * len(self.content)):
            with self.subTest(lie=lie):
                self.setUp()
                self.file.length_lie = lie
                done = self.pull()
                if lie > 0:  # the next request shows the truth
                    self.assert_pulled(done)
                else:
                    self.assert_refused(done, "is the file cut?")
        self.setUp()  # the hub's list against the server
        self.file.listed_bytes += 10
        self.assert_refused(self.pull("hf:maker/tiny-GGUF"), "were announced")
        self.setUp()
        self.file.is_chunked = True
        self.assert_pulled(self.pull())
        self.setUp()  # no ranges, and never to its end
        self.file.has_ranges, self.file.cuts = False, [500000] * 30
        self.assert_refused(self.pull(None, "--tries", "30"), "it never comes to its end", part_bytes=500000)

    def test_what_servers_answer(self):
        cases = (([(500, {})], None), ([(503, {}), (429, {"Retry-After": "1"})], None), ([(404, {})], "it has no such file"), ([(401, {})], "--hub-token-file"),
                 ([(403, {})], "--hub-token-file"), ([(500, {})] * 4, "the server answers 500"), ([(429, {"Retry-After": "4000"})], "come again in 4000 s"))
        for statuses, words in cases:
            with self.subTest(statuses=statuses):
                self.setUp()
                self.file.statuses = statuses
                done = self.pull()
                self.assert_refused(done, words) if words else self.assert_pulled(done)

    def test_a_part_that_is_complete_or_too_long(self):
        for length, wanted in ((len(self.content), 1), (len(self.content) + 5, 2)):  # 416, then from the beginning
            with self.subTest(length=length):
                self.setUp()
                (self.models / "tiny-Q4_K_M.gguf.part").write_bytes((self.content + b"more!")[:length])
                (self.models / "tiny-Q4_K_M.gguf.part.tag").write_text(self.file.etag + "\n")
                self.assert_pulled(self.pull())
                self.assertEqual(len(self.hub.asked("tiny-Q4_K_M.gguf")), wanted)

    def test_what_is_no_model_is_not_kept(self):
        self.hub.add("tiny-Q4_K_M.gguf", b"<html>please log in</html>")
        self.assert_refused(self.pull(), "not a GGUF file")
        self.hub.add("tiny-Q4_K_M.gguf", self.content[:-100])
        self.assert_refused(self.pull(), "is the file cut?")
        self.assert_refused(self.pull(None, "--sha256", "0" * 64), "its SHA-256 is")
        self.assertEqual(self.pull(f"{self.hub.url}/README.md").returncode, 1)

    def test_a_token_stays_with_its_host(self):
        token = self.models / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        with Hub() as elsewhere:
            elsewhere.add("moved.gguf", self.content)
            for host, count in ((elsewhere.url, 1), (self.hub.url, 1), (elsewhere.url.replace("127.0.0.1", "localhost"), 1)):
                with self.subTest(host=host):
                    self.setUp()
                    elsewhere.requests.clear()
                    self.hub.add("moved.gguf", self.content)
                    self.file.redirect = f"{host}/moved.gguf"
                    self.assert_pulled(self.pull("hf:maker/tiny-GGUF:Q4_K_M", "--hub-token-file", str(token)))
                    self.assertTrue(all(headers.get("Authorization") == f"Bearer {TOKEN}" for _, headers in self.hub.requests))
                    self.assertEqual([headers.get("Authorization") for _, headers in elsewhere.requests], [] if host == self.hub.url else [None] * count)
            # Nor is it shown to a URL of another host in the first place.
            elsewhere.requests.clear()
            self.assertEqual(self.pull(f"{elsewhere.url}/moved.gguf", "--hub-token-file", str(token)).returncode, 0)
            self.assertEqual([headers.get("Authorization") for _, headers in elsewhere.requests], [None])
        token.chmod(0o644)
        self.assertIn("chmod", self.pull("hf:maker/tiny-GGUF", "--hub-token-file", str(token)).stderr)
        self.setUp()
        self.file.redirect = f"{self.hub.url}/tiny-Q4_K_M.gguf"
        self.assertIn("redirects more than", self.pull("hf:maker/tiny-GGUF").stderr)

    def test_the_hub_is_asked_which_file(self):
        for name in ("tiny-Q4_K_S.gguf", "mmproj-Q8_0.gguf", "sub/tiny-UD-Q8_0.gguf"):
            self.hub.add(name, self.other)
        self.assert_pulled(self.pull("hf:maker/tiny-GGUF"))  # Q4_K_M, where nothing is said
        self.assert_pulled(self.pull("hf:maker/tiny-GGUF:q8_0"), self.other, "tiny-UD-Q8_0.gguf")
        self.assertIn("there are: tiny-Q4_K_M.gguf, tiny-Q4_K_S.gguf", self.pull("hf:maker/tiny-GGUF:Q2_K").stderr)
        self.hub.add("two-Q8_0.gguf", self.other)
        self.assertIn("which of them?", self.pull("hf:maker/tiny-GGUF:Q8_0").stderr)
        self.assertIn("no such repository", self.pull("hf:maker/nothing").stderr)
        self.assertEqual(self.pull("hf:maker").returncode, 1)
        self.file.sha256 = "0" * 64
        (self.models / "tiny-Q4_K_M.gguf").unlink()
        self.assert_refused(self.pull("hf:maker/tiny-GGUF"), "its SHA-256 is")

    def test_all_files_of_a_model_and_its_life(self):
        names = [os.path.basename(path) for path in self.part_paths]
        for path in self.part_paths:
            self.hub.add("big/" + os.path.basename(path), pathlib.Path(path).read_bytes())
        self.hub.files["big/" + names[1]].cuts = [100000]
        done = self.pull("hf:maker/tiny-GGUF:Q8_0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(self.models)), sorted(names))
        folder = ["--models-dir", str(self.models)]
        line = self.command("models", *folder).stdout.splitlines()[1].split()
        self.assertEqual(line[:1] + line[3:], ["big-Q8_0", "F32", "0", "M", "2", "512", "llama", "(3", "files)"])
        # A name is enough for --model, and what is wrong with the model is told.
        start = ["--listen", "127.0.0.1:0", "--fleet-listen", "127.0.0.1:0"]
        self.assertIn("llama.embedding_length is missing", self.command("--model", "big-Q8_0", *folder, *start).stderr)
        self.assertIn("there are: big-Q8_0", self.command("--model", "small", *folder, *start).stderr)
        self.assertIn("--yes", self.command("rm", "big-Q8_0", *folder).stderr)
        self.assertEqual(self.command("rm", "big-Q8_0", *folder, "--yes").returncode, 0)
        self.assertEqual(os.listdir(self.models), [])
        # By URL, of any part; a part that is not there is named.
        for path in self.part_paths:
            self.hub.add(os.path.basename(path), pathlib.Path(path).read_bytes())
        self.assertEqual(self.pull(f"{self.hub.url}/{names[2]}", "--output", str(self.models) + "/").returncode, 0)
        self.assertEqual(sorted(os.listdir(self.models)), sorted(names))
        del self.hub.files[names[1]]
        self.assertIn(names[1], self.pull(f"{self.hub.url}/{names[0]}", "--output", str(self.folder / "new") + "/").stderr)

    def test_a_disk_that_is_too_small(self):
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.models], capture_output=True).returncode:
            self.skipTest("a small disk is a tmpfs, and only root may mount one")
        try:
            self.assert_refused(self.pull(), "MB more are needed")
            self.file.is_chunked = True  # nobody knows how much will come
            done = self.pull()
            self.assertIn("the disk is full", done.stderr)
            kept = (self.models / "tiny-Q4_K_M.gguf.part").stat().st_size
            self.assertGreater(kept, 500000)
            subprocess.run(["mount", "-o", "remount,size=8m", self.models], check=True)
            self.assert_pulled(self.pull())
            self.assertEqual(self.hub.asked("tiny-Q4_K_M.gguf")[-1]["Range"], f"bytes={kept}-")
        finally:
            subprocess.run(["umount", self.models], check=True)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
