"""What the compiler and the linker did for the programs, read from the programs themselves; which flags every build type has; and that a library with
known faults is refused."""

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import SKIPPED, build_folder, is_sanitized, need_file, run_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
IS_X86 = platform.machine() in ("x86_64", "AMD64")
OPTIMIZED = ("Release", "RelWithDebInfo", "MinSizeRel")


def said(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("readelf"):
            raise unittest.SkipTest("readelf is not installed")
        cls.programs = [need_file(build_folder() / f"longhaul-{name}", f"longhaul-{name} is not built") for name in ("gateway", "worker")]

    def each(self, *flags):
        return [said("readelf", "-W", *flags, program) for program in self.programs]

    def test_they_may_lie_anywhere(self):
        for text in self.each("-h", "-d"):
            self.assertRegex(text, r"Type:\s+DYN")
            self.assertRegex(text, r"FLAGS_1\).*\bPIE\b")

    def test_what_is_bound_is_bound_at_start_and_read_only_then(self):
        for text in self.each("-l", "-d"):
            self.assertIn("GNU_RELRO", text)
            self.assertRegex(text, r"FLAGS\).*BIND_NOW|FLAGS_1\).*\bNOW\b")
            self.assertRegex(text, r"GNU_STACK.*\bRW \s")
            self.assertNotIn("TEXTREL", text)

    def test_stacks_and_copies_are_checked(self):
        for text in self.each("--dyn-syms"):
            self.assertIn("__stack_chk_fail", text)
            self.assertRegex(text, r"__(mem|str|snprintf|vsnprintf|fread|recv|read)\w*_chk\b")

    @unittest.skipUnless(IS_X86, "x86 alone")
    def test_jumps_and_returns_are_marked(self):
        for text in self.each("-n"):
            self.assertRegex(text, r"x86 feature:.*SHSTK")
        for program in self.programs:
            # Debian's crt1.o bears no mark for indirect branches, so the linker gives none to a program; its own code is made for them.
            self.assertRegex(said("objdump", "-d", "--disassemble=main", "--no-show-raw-insn", program), r"<main>:\n\s+[0-9a-f]+:\s+endbr64")


class BuildTypes(unittest.TestCase):
    """Configured, not built: what compiles one of them compiles all, since they differ in -O and -g alone."""

    def commands(self, build_type):
        with tempfile.TemporaryDirectory(prefix="longhaul-build-type-") as folder:
            said("cmake", "-S", ROOT, "-B", folder, f"-DCMAKE_BUILD_TYPE={build_type}", "-DLONGHAUL_TESTS=OFF")
            return [entry["command"].split() for entry in json.loads((pathlib.Path(folder) / "compile_commands.json").read_text())]

    def test_every_type_is_hardened_and_keeps_its_assertions(self):
        always = ["-fPIE", "-fstack-protector-strong", "-fstack-clash-protection"] + ["-fcf-protection=full"] * IS_X86
        for build_type in (*OPTIMIZED, "Debug"):
            with self.subTest(build_type):
                commands = self.commands(build_type)
                self.assertGreater(len(commands), 200)
                for command in commands:
                    self.assertFalse([flag for flag in always if flag not in command], command)
                    self.assertNotIn("-DNDEBUG", command)
                    # without optimization glibc warns that it checks nothing
                    self.assertEqual("-D_FORTIFY_SOURCE=2" in command, build_type in OPTIMIZED, command)


class Floors(unittest.TestCase):
    def configure(self, version):
        """CMake's exit status and words, where Debian's package of nghttp2 is said to be of that version."""
        with tempfile.TemporaryDirectory(prefix="longhaul-floors-") as folder:
            query = pathlib.Path(folder) / "dpkg-query"
            query.write_text(f"#!/bin/sh\nprintf %s '{version}'\n")
            query.chmod(0o755)
            script = pathlib.Path(folder) / "CMakeLists.txt"
            script.write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(x NONE)\ninclude({ROOT}/cmake/dependency_floors.cmake)\n")
            done = subprocess.run(["cmake", "-S", folder, "-B", f"{folder}/build"], capture_output=True, text=True,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
            return done.returncode, done.stdout + done.stderr

    @unittest.skipUnless(shutil.which("dpkg"), "no Debian")
    def test_a_library_with_known_faults_is_refused(self):
        for version in ("1.52.0-1", "1.52.0-1+deb12u2"):
            status, words = self.configure(version)
            self.assertNotEqual(status, 0, words)
            self.assertIn("CVE-2026-27135", words)
        for version in ("1.52.0-1+deb12u3", "1.52.0-1+deb12u10", "1.64.0-1.1"):
            self.assertEqual(self.configure(version)[0], 0, version)

    def test_where_it_cannot_be_seen_that_is_said(self):
        status, words = self.configure("")
        self.assertEqual(status, 0, words)
        self.assertIn("CVE-2024-28182", words)


if __name__ == "__main__":
    if is_sanitized():
        print("skipped: sanitizers have their own checks")
        sys.exit(SKIPPED)
    run_tests(sys.modules[__name__])
