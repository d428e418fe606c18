"""The model that tests and benches run."""

import os
import pathlib
import subprocess

_FETCH = pathlib.Path(__file__).resolve().parent.parent.parent / "deploy" / "fetch-model"


def default_model():
    """$LONGHAUL_TEST_MODEL, or the model of the tests, fetched once; "" where that cannot be had (and standard error says why)."""
    given = os.environ.get("LONGHAUL_TEST_MODEL")
    return given or subprocess.run([_FETCH], stdout=subprocess.PIPE, text=True).stdout.strip()
