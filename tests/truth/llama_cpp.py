"""What llama.cpp has for everybody to read: chat templates of real models, and grammars. Out of the source package of llama-cpp-python, which is fetched
from PyPI once, whoever asks first.

    tests/python tests/truth/llama_cpp.py      fetches it"""

import fcntl
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

CACHE = pathlib.Path(__file__).resolve().parents[2] / ".cache"
PACKAGE = "llama-cpp-python==0.3.36"
# Folder of the cache -> what is kept there of the package.
KEPT = {"chat-templates": ("/models/templates/", ".jinja"), "gbnf": ("/vendor/llama.cpp/grammars/", ".gbnf")}


class NotFetched(Exception):
    """There is no network, or no such package in it."""


def folder(name):
    """The path of one of KEPT. Raises NotFetched."""
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "llama-cpp.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((CACHE / each).is_dir() for each in KEPT):
            _fetch()
    return CACHE / name


def _fetch():
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", PACKAGE.partition("==")[0], "-d", work, PACKAGE]
        try:
            subprocess.run(command, check=True, timeout=600)
        except (OSError, subprocess.SubprocessError) as error:
            raise NotFetched(f"{PACKAGE} cannot be fetched: {error}") from error
        for name, (inside, suffix) in KEPT.items():
            aside = pathlib.Path(work) / name
            aside.mkdir()
            _unpack(next(pathlib.Path(work).glob("*.tar.gz")), inside, suffix, aside)
            shutil.rmtree(CACHE / name, ignore_errors=True)
            aside.rename(CACHE / name)


def _unpack(archive, inside, suffix, target):
    with tarfile.open(archive) as package:
        for member in package:
            if inside in member.name and member.name.endswith(suffix):
                (target / pathlib.PurePosixPath(member.name).name).write_bytes(package.extractfile(member).read())


if __name__ == "__main__":
    try:
        folder("gbnf")
    except NotFetched as problem:
        sys.exit(str(problem))
