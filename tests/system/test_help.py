"""Everybody's first words: -h, help and a slip of the finger, at each program and at the scripts beside them."""

import os
import pathlib
import subprocess
import sys
import unittest

from programs import build_folder, run_tests

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
COMMANDS = {"longhaul-gateway": ("check", "key", "members", "revoke", "rotate-ca", "token", "tokens", "trace"), "longhaul-worker": ("join",),
            "longhaul-link": ("sites", "uplink")}
# (words, what is suggested)
SLIPS = {"longhaul-gateway": ((["tokn"], "token"), (["--modle", "x"], "--model"), (["help", "trase"], "trace"), (["token", "--sit", "x"], "--site"),
                              (["-model", "x"], "--model")),
         "longhaul-worker": ((["jion"], "join"), (["--gatway", "x"], "--gateway")),
         "longhaul-link": ((["uplnik"], "uplink"), (["uplink", "--link-rat", "1"], "--link-rate"))}


def run(program, *words):
    done = subprocess.run([program, *words], capture_output=True, text=True, env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


class Help(unittest.TestCase):
    def test_help_is_found_in_every_usual_way(self):
        for name, commands in COMMANDS.items():
            program = build_folder() / name
            status, told, error = run(program, "--help")
            self.assertEqual((status, error), (0, ""))
            for command in commands:
                self.assertIn(f"\n  {command} ", told)
            for words in (["-h"], ["help"]):
                self.assertEqual(run(program, *words), (0, told, ""))
            for command in commands:
                own = run(program, "help", command)
                self.assertEqual((own[0], own[2]), (0, ""))
                self.assertTrue(own[1].startswith(f"usage: {name} {command}"), own)
                for words in ((command, "-h"), (command, "--help")):
                    self.assertEqual(run(program, *words), own)

    def test_a_slip_of_the_finger_is_understood(self):
        for name, slips in SLIPS.items():
            for words, meant in slips:
                with self.subTest(program=name, words=words):
                    status, told, error = run(build_folder() / name, *words)
                    self.assertEqual((status, told), (2, ""))
                    self.assertIn(f"did you mean {meant}?", error)

    def test_the_scripts_tell_of_themselves(self):
        scripts = [path for path in (*DEPLOY.iterdir(), *(DEPLOY / "docker").iterdir()) if path.is_file() and os.access(path, os.X_OK)]
        self.assertGreater(len(scripts), 5)
        for script in scripts:
            with self.subTest(script=script.name):
                status, told, _ = run(script, "--help")
                self.assertEqual(status, 0)
                self.assertIn(f"{script.relative_to(DEPLOY.parent)}", told)
                self.assertEqual(run(script, "-h")[:2], (0, told))
                self.assertEqual(run(script, "--no-such-flag")[0], 2)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
