"""The same system_fingerprint promises the same answer to the same request: so it changes with each flag that changes answers, and with no other."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from programs import build_folder, free_port, run_tests

try:
    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "truth"))
    from small_model import MODELS, Type, Writer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


class Fingerprint(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        Writer(cls.path / "model.gguf", 1, Type.Q8_0).write(*MODELS["llama"])
        Writer(cls.path / "other.gguf", 2, Type.Q8_0).write(*MODELS["qwen2"])
        (cls.path / "a.jinja").write_text(TEMPLATE)
        (cls.path / "b.jinja").write_text(TEMPLATE + " ")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def fingerprint(self, *flags, model="model.gguf"):
        ports = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        words = [build_folder() / "longhaul-gateway", "--model", self.path / model, "--listen", ports[0], "--fleet-listen", ports[1]]
        with subprocess.Popen([*words, *flags], stderr=subprocess.PIPE, text=True) as gateway:
            said = next((line for line in gateway.stderr if " fingerprint=" in line), "")
            gateway.terminate()
            gateway.stderr.read()
        self.assertRegex(said, r" fingerprint=fp_[0-9a-f]{16} ", flags)
        return said.split(" fingerprint=")[1].split()[0]

    def test_what_changes_answers_changes_it(self):
        changes = ([], ["--kv-type", "f16"], ["--kv-type", "q8"], ["--activations", "q16"], ["--gpu-math", "fast"], ["--wire", "f16"], ["--wire", "auto"],
                   ["--wire", "auto", "--wire-allow-q8"], ["--chat-template", self.path / "a.jinja"], ["--chat-template", self.path / "b.jinja"],
                   ["--chat-template", self.path / "a.jinja", "--chat-template-kwargs", '{"enable_thinking": false}'],
                   ["--chat-template", self.path / "a.jinja", "--template-date", "2026-11-26"], ["--default-temperature", "0.5"], ["--default-top-k", "7"])
        found = [self.fingerprint(*flags) for flags in changes] + [self.fingerprint(model="other.gguf")]
        self.assertEqual(len(set(found)), len(found), found)

    def test_what_does_not_does_not(self):
        (self.path / "copy.jinja").write_text(TEMPLATE)
        named = self.fingerprint("--chat-template", self.path / "a.jinja")
        self.assertEqual(self.fingerprint("--chat-template", self.path / "copy.jinja", "--rows-max", "64", "--gpu-math", "exact", "--overlap", "off", "--model-name", "x"), named)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
