"""The C code's logits, from tests/worker/tool_logits.c in the build that LONGHAUL_BUILD names."""
import functools
import os
import pathlib
import subprocess
import tempfile

import numpy as np


def _command(*options):
    return [os.environ["LONGHAUL_BUILD"] + "/tests/logits", *options]


@functools.lru_cache
def instruction_sets(model):
    """The names of those that this machine runs, the worst first."""
    with tempfile.NamedTemporaryFile() as file:
        np.zeros(1, "<u4").tofile(file.name)
        say = lambda name: subprocess.run(_command("--model", model, "--tokens", file.name, "--out", "", "--isa", name), capture_output=True, text=True)
        names = say("?").stderr.split("this build has: ")[1].split()
        found = [name for name in (name.strip(",") for name in names) if name != "auto" and "does not run" not in say(name).stderr]
    assert found[0] == "reference", names
    return found


def longhaul_logits(model, tokens, *options):
    """tokens [rows] from position 0 -> [rows][vocabulary], float32."""
    with tempfile.TemporaryDirectory() as name:
        file, out = pathlib.Path(name) / "tokens.u32", pathlib.Path(name) / "logits.f32"
        np.asarray(tokens, "<u4").tofile(file)
        subprocess.run(_command("--model", model, "--tokens", file, "--out", out, *options), check=True, stderr=subprocess.DEVNULL)
        return np.fromfile(out, dtype="<f4").reshape(len(tokens), -1)
