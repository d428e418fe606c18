"""The service manager's side of sd_notify(3): a datagram socket of the test's own, in NOTIFY_SOCKET of what is started meanwhile."""

import contextlib
import os
import pathlib
import socket
import struct
import tempfile

from programs import wait_until

CREDENTIALS = struct.Struct("3i")  # struct ucred


class NotifySocket:
    def __init__(self, watchdog_us=None, is_abstract=False):
        self.folder = tempfile.TemporaryDirectory(prefix="longhaul-notify-")
        self.path = str(pathlib.Path(self.folder.name) / "notify")
        self.variables = {"NOTIFY_SOCKET": "@" + self.path if is_abstract else self.path}
        if watchdog_us:
            self.variables["WATCHDOG_USEC"] = str(watchdog_us)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.setblocking(False)
        self.socket.bind("\0" + self.path if is_abstract else self.path)
        self.lines = []    # of all datagrams so far
        self.senders = set()  # process ids

    @contextlib.contextmanager
    def told_to_programs(self):
        """What is started inside knows of the socket."""
        before = {name: os.environ.get(name) for name in self.variables}
        os.environ.update(self.variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def read(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                data, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(CREDENTIALS.size))
                self.lines += data.decode().splitlines()
                self.senders |= {CREDENTIALS.unpack(content)[0] for level, kind, content in ancillary if kind == socket.SCM_CREDENTIALS}
        return self.lines

    def count(self, line):
        return self.read().count(line)

    def wait_for(self, begin):
        """The first line that begins so."""
        return wait_until(lambda: next((line for line in self.read() if line.startswith(begin)), None), f"a line {begin}")

    def close(self):
        self.socket.close()
        self.folder.cleanup()
