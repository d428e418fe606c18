"""A disk without room for the state: what has not changed is not written, so both programs start; and what cannot be written is tried again."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from joining import LOOPBACK, Machine, OwnFleet
from programs import Program, free_port, is_sanitized, lacking, run_tests, wait_until

# A file system of its own over the folder, with what is in it, and not a byte of room. "$1" is the folder, "$2" how it is mounted in the end.
FILL = """
set -e
cp -a "$1" "$1.kept"
mount -t tmpfs -o size=1m,mode=700 none "$1"
cp -a "$1.kept/." "$1"
cat /dev/zero > "$1/fill" 2> /dev/null || true
mount -o "remount,$2" "$1"
shift 2
exec "$@"
"""


def without_room(folder, mode="rw"):
    """The words before a command that finds the folder so."""
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", FILL, "sh", folder, mode]


class FullDisk(unittest.TestCase):
    def setUp(self):
        try:
            can_mount = subprocess.run(["unshare", "--mount", "--map-root-user", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0
        except OSError:
            can_mount = False
        if not can_mount:
            raise lacking("no file systems of one's own here")
        temporary = tempfile.TemporaryDirectory(prefix="longhaul-full-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.fleet = OwnFleet(self.folder)
        self.addCleanup(lambda: self.fleet.stop())

    def start_again(self, mode="rw"):
        self.fleet.stop()
        self.fleet.prefix = without_room(self.fleet.state, mode)
        self.fleet.start()

    def test_a_gateway_starts_and_goes_on(self):
        port = self.fleet.port
        member, late = Machine(self.folder, "member"), Machine(self.folder, "late")
        self.assertEqual(member.join(port, self.fleet.token()), (200, None))
        token = self.fleet.token()
        self.start_again()
        self.assertTrue(member.is_accepted(port))
        for _ in range(2):
            self.assertEqual(late.join(port, token), (503, "unavailable"))
        self.assertIn("No space left on device", self.fleet.gateway.log_text())
        self.assertTrue(member.is_accepted(port))
        pathlib.Path(f"/proc/{self.fleet.gateway.pid}/root{self.fleet.state}/fill").unlink()
        self.assertEqual(late.join(port, token), (200, None))
        self.assertTrue(late.is_accepted(port))

    def test_a_gateway_starts_where_it_may_not_write(self):
        member = Machine(self.folder, "member")
        self.assertEqual(member.join(self.fleet.port, self.fleet.token()), (200, None))
        self.start_again("ro")
        self.assertTrue(member.is_accepted(self.fleet.port))

    @unittest.skipIf(is_sanitized(), "it is about files")
    def test_a_worker_starts(self):
        state, worker = self.folder / "worker", self.fleet.program.replace("longhaul-gateway", "longhaul-worker")
        flags = ["--state-dir", state, "--listen-tls", f"{LOOPBACK}:{free_port()}", "--model", self.fleet.model, "--threads", "1", "--cache-dir",
                 self.folder / "cache"]
        for number, (words, prefix) in enumerate(((["join", f"https://{LOOPBACK}:{self.fleet.port}", self.fleet.token("--name", "office").text], []),
                                                  ([], without_room(state)), ([], without_room(state, "ro")))):
            subprocess.run(["rm", "-rf", f"{state}.kept"], check=True)
            program = Program(f"worker-{number}", [*prefix, worker, *words, *flags], self.folder)
            self.addCleanup(program.stop)
            wait_until(lambda program=program: "registered with the gateway" in program.log_text() or not program.is_running(), "it is registered")
            self.assertTrue(program.is_running(), program.log_text())
            program.kill()


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
