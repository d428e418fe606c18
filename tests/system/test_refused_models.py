"""A file that workers could not compute, or whose text nobody here can read, is refused by the gateway by name, before it listens."""
import functools
import pathlib
import subprocess
import sys
import tempfile
import unittest

from programs import build_folder, free_port, run_tests

try:
    import numpy as np

    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "truth"))
    from small_model import MODELS, Type, Writer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


class RefusedModels(unittest.TestCase):
    def refusal(self, architecture, keys, tokenizer=None, matrix=None):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.gguf"
            writer = Writer(path, 1, Type.Q8_0)
            if matrix:
                writer.matrix = functools.partial(matrix, writer)
            if tokenizer:
                writer.tokenizer = lambda: writer.file.add_tokenizer_model(tokenizer)
            writer.write(architecture, 2, keys, MODELS["llama"][3])
            ports = [f"127.0.0.1:{free_port()}" for _ in range(2)]
            done = subprocess.run([build_folder() / "longhaul-gateway", "--model", path, "--listen", ports[0], "--fleet-listen", ports[1]],
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("listening", done.stderr)
        return done.stderr

    def test_an_architecture(self):
        said = self.refusal("mamba", {})
        self.assertRegex(said, r'"mamba" is not supported \(docs/OPERATING.md names the \d+ that are\)')

    def test_a_parameter(self):
        self.assertIn("llama.attn_logit_softcapping = 50", self.refusal("llama", {"attn_logit_softcapping": 50.0}))

    def test_a_type_of_weights(self):
        said = self.refusal("llama", {}, matrix=lambda writer, name, outputs, inputs, _: writer.file.add_tensor(
            name, np.zeros((outputs, inputs), dtype=np.int8), raw_dtype=Type.I8))
        self.assertIn("token_embd.weight: type I8 is not supported (F32, ", said)
        self.assertIn("IQ4_NL", said)

    def test_a_tokenizer(self):
        said = self.refusal("llama", {}, tokenizer="rwkv")
        self.assertIn("rwkv", said)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
