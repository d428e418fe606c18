"""Runs a program in a network namespace of its own, where there is loopback and nothing else but one port: that of a server outside of it, through
a Unix socket. What the program wants of any other machine fails at once."""

import contextlib
import fcntl
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading

SIOCSIFFLAGS, UP, RUNNING = 0x8914, 0x1, 0x40


def copy(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with contextlib.suppress(OSError):
            end.shutdown(how)


def join(one, other):
    threading.Thread(target=copy, args=(one, other), daemon=True).start()
    copy(other, one)
    one.close()
    other.close()


def serve(listener, connect):
    """Until the listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            accepted, _ = listener.accept()
            threading.Thread(target=lambda one=accepted: join(one, connect()), daemon=True).start()


def connect_unix(path):
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    return client


def run(port, command, **options):
    """As subprocess.run. The server of this port is there under the same port."""
    with tempfile.TemporaryDirectory(prefix="longhaul-loopback-") as folder:
        path = str(pathlib.Path(folder) / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            threading.Thread(target=serve, args=(listener, lambda: socket.create_connection(("127.0.0.1", port))), daemon=True).start()
            inside = [sys.executable, __file__, path, str(port), *command]
            return subprocess.run([shutil.which("unshare"), "--user", "--map-root-user", "--net", *inside], **options)


def bring_up_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", UP | RUNNING))


def main(path, port, *command):
    bring_up_loopback()
    listener = socket.create_server(("127.0.0.1", int(port)))
    threading.Thread(target=serve, args=(listener, lambda: connect_unix(path)), daemon=True).start()
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])
