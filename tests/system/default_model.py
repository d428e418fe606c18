"""The models that tests and benches run."""

import os
import pathlib
import subprocess

_FETCH = pathlib.Path(__file__).resolve().parent.parent.parent / "deploy" / "fetch-model"


def _given_or_fetched(variable, *flags):
    """What the variable names, or what deploy/fetch-model has, fetched once; "" where that cannot be had (and standard error says why)."""
    given = os.environ.get(variable)
    return given or subprocess.run([_FETCH, *flags], stdout=subprocess.PIPE, text=True).stdout.strip()


def default_model():
    """SmolLM2-135M-Instruct, or whatever $LONGHAUL_TEST_MODEL names."""
    return _given_or_fetched("LONGHAUL_TEST_MODEL")


def gemma_model():
    """gemma-3-270m, or what $LONGHAUL_TEST_GEMMA names."""
    return _given_or_fetched("LONGHAUL_TEST_GEMMA", "--gemma")


def qwen_model():
    """Qwen2.5-Coder-0.5B-Instruct, or what $LONGHAUL_TEST_QWEN names."""
    return _given_or_fetched("LONGHAUL_TEST_QWEN", "--qwen")
