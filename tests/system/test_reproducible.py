"""A program built twice, in folders of other names and depths, is the same bytes, and tells no path of the machine that built it. The smallest program
stands for all, whose flags are the same; test_packages builds the others."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import SKIPPED, is_sanitized, run_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("CMakeLists.txt", "cmake", "common", "deploy", "docs", "gateway", "kernels", "link", "worker")
# A cache of objects would give those of the first build to the second.
ENVIRONMENT = {**os.environ, "CCACHE_DISABLE": "1"}


def build_in(source, build):
    for part in PARTS:
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, source / part)
    # As the packages are built.
    options = ["-DLONGHAUL_TESTS=OFF", "-DLONGHAUL_DEBUG_INFO=ON"]
    for words in (["cmake", "-S", source, "-B", build, "-G", "Ninja", *options], ["cmake", "--build", build, "--target", "longhaul-link"]):
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    return (build / "longhaul-link").read_bytes()


class Reproducible(unittest.TestCase):
    def test_two_builds_give_the_same_bytes(self):
        with tempfile.TemporaryDirectory(prefix="longhaul-reproducible-") as folder:
            one, another = pathlib.Path(folder) / "one", pathlib.Path(folder) / "another" / "and" / "deeper"
            one.mkdir()
            another.mkdir(parents=True)
            first = build_in(one, one / "build")
            second = build_in(another, pathlib.Path(folder) / "elsewhere")
            self.assertEqual(hashlib.sha256(first).hexdigest(), hashlib.sha256(second).hexdigest())
            self.assertNotIn(folder.encode(), first)


if __name__ == "__main__":
    if is_sanitized():
        print("skipped: a release build is built, whatever the sanitizers")
        sys.exit(SKIPPED)
    run_tests(sys.modules[__name__])
