"""The units for systemd, as CMake writes them: sound, closed as far as the programs bear it, and about options that there are. Skipped where
systemd-analyze is not installed."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import SKIPPED, build_folder, need_file, run_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = {"longhaul-gateway.service": "longhaul-gateway", "longhaul-worker@.service": "longhaul-worker"}
# Of 10, in tenths: --threshold takes so.
EXPOSURE_MAX = 20


def analyze(*words):
    done = subprocess.run(["systemd-analyze", *map(str, words)], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


class Units(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """With the programs where they are, as systemd-analyze looks for them."""
        temporary = tempfile.TemporaryDirectory(prefix="longhaul-units-")
        cls.addClassCleanup(temporary.cleanup)
        cls.units = {}
        for name, program in PROGRAMS.items():
            path = need_file(build_folder() / program, f"{program} is not built")
            text = (build_folder() / "systemd" / name).read_text()
            assert re.search(rf"^ExecStart=/\S+/bin/{program} ", text, re.M), text
            unit = pathlib.Path(temporary.name) / name
            unit.write_text(re.sub(rf"=/\S+/{program} ", f"={path} ", text))
            cls.units[unit] = path

    def test_they_are_sound(self):
        status, words = analyze("verify", "--man=no", *self.units)
        self.assertEqual((status, words), (0, ""))

    def test_they_leave_little_open(self):
        for unit in self.units:
            status, words = analyze("security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", "--no-pager", unit)
            print(words.strip().splitlines()[-1])
            self.assertEqual(status, 0, words)

    def test_their_options_are_options(self):
        for unit, program in self.units.items():
            command = re.search(r"^ExecStart=\S+ (.*)$", unit.read_text(), re.M)[1]
            said = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
            for option in re.findall(r"--[\w-]+", command):
                self.assertRegex(said, rf"{option}\b")

    def test_systemd_waits_longer_than_the_programs_drain(self):
        for unit, program in self.units.items():
            waits = int(re.search(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.M)[1])
            said = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
            drains = int(re.search(r"--drain-timeout .*?default:? (\d+)", said, re.S)[1])
            self.assertGreater(waits, drains + 10)


class Packages(unittest.TestCase):
    def test_their_version_is_the_programs(self):
        version = re.search(r"^project\(longhaul VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
        self.assertRegex((ROOT / "debian" / "changelog").read_text(), rf"^longhaul \({re.escape(version)}\) ")

    def test_they_are_built_with_what_all_builds_need(self):
        needed = [line for line in (ROOT / "deploy" / "packages").read_text().split("\n") if line and not line.startswith("#")]
        wanted = re.search(r"^Build-Depends:((?: .*\n?)+)", (ROOT / "debian" / "control").read_text(), re.M)[1]
        depends = {part.split()[0] for part in wanted.split(",")} - {"debhelper-compat"}
        self.assertEqual(depends, set(needed) - {"gcc", "libc6-dev"})  # which build-essential has


class ServiceScript(unittest.TestCase):
    script = ROOT / "deploy" / "systemd" / "longhaul-worker-service"

    def test_it_helps(self):
        done = subprocess.run([self.script, "--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("longhaul-gateway token", done.stdout)

    def test_what_is_no_line_is_refused_before_anything_is_done(self):
        for words in (["https://192.0.2.1:7100"], ["lh1.abc"], ["longhaul-worker", "join", "https://h:1", "lh1.a", "--name", "x"], ["--instance", "a/b"],
                      ["--instance"]):
            done = subprocess.run([self.script, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 1, words)
            self.assertRegex(done.stderr, r"^longhaul-worker-service: \S")


if __name__ == "__main__":
    if not shutil.which("systemd-analyze"):
        print("skipped: systemd-analyze is not installed")
        sys.exit(SKIPPED)
    run_tests(sys.modules[__name__])
