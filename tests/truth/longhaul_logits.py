"""The C code's logits, from tests/worker/tool_logits.c in the build that LONGHAUL_BUILD names."""
import os
import pathlib
import subprocess
import tempfile

import numpy as np


def longhaul_logits(model, tokens, *options):
    """tokens [rows] from position 0 -> [rows][vocabulary], float32."""
    with tempfile.TemporaryDirectory() as name:
        file, out = pathlib.Path(name) / "tokens.u32", pathlib.Path(name) / "logits.f32"
        np.asarray(tokens, "<u4").tofile(file)
        command = [os.environ["LONGHAUL_BUILD"] + "/tests/logits", "--model", model, "--tokens", file, "--out", out, *options]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return np.fromfile(out, dtype="<f4").reshape(len(tokens), -1)
