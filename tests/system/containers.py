"""Containers of the image that deploy/Dockerfile makes, on networks of their own; all of it goes when the test ends.
As a program, it builds the image."""

import fcntl
import os
import pathlib
import subprocess
import sys
import tempfile
import uuid
import zlib

from programs import SKIPPED

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Another one for other packages, so that none is used that lacks some.
BASE = f"longhaul-build-base:{zlib.crc32((ROOT / 'deploy' / 'packages').read_bytes()):08x}"
IMAGE = "longhaul-test"
# As deploy/compose.yaml has it for every service.
HARDENED = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]


def docker(*words, check=True):
    done = subprocess.run(["docker", *map(str, words)], capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"docker {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done


def docker_bytes(*words, stdin=None):
    """For archives."""
    return subprocess.run(["docker", *map(str, words)], input=stdin, capture_output=True, check=True).stdout


def need_engine():
    try:
        answers = docker("version", check=False).returncode == 0
    except FileNotFoundError:
        answers = False
    if not answers:
        print("skipped: no Docker engine answers")
        sys.exit(SKIPPED)


def build_image():
    """The image of this tree; the build base is made where there is none yet. What one test has built, another one finds."""
    with open(pathlib.Path(tempfile.gettempdir()) / f"longhaul-test-image-{os.getuid()}", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _build()
    return IMAGE


def _build():
    if not docker("image", "ls", "--quiet", BASE).stdout:
        subprocess.run([ROOT / "deploy" / "docker" / "base", BASE], check=True, stdout=subprocess.DEVNULL)
    docker("build", "--quiet", "--network", "none", "--file", ROOT / "deploy" / "Dockerfile", "--build-arg", f"BUILD_BASE={BASE}", "--tag", IMAGE, ROOT)


def import_program(name, program, *settings, folders=()):
    """An image of one program of this machine and what it needs, as other people's image of it would be; folders: that anybody may write to."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        subprocess.run([ROOT / "deploy" / "docker" / "collect", root, program], check=True)
        for each in folders:
            (root / each).mkdir()
            (root / each).chmod(0o777)
        archive = subprocess.run(["tar", "-C", root, "-c", "."], check=True, capture_output=True).stdout
    changes = [word for setting in settings for word in ("--change", setting)]
    return docker_bytes("import", *changes, "-", name, stdin=archive).decode().strip()


class Network:
    """A network that leads nowhere else, and the containers on it."""

    def __init__(self):
        self.name = f"longhaul-test-{uuid.uuid4().hex[:8]}"
        self.containers = []

    def __enter__(self):
        docker("network", "create", "--internal", self.name)
        return self

    def __exit__(self, kind, error, trace):
        if error:
            for container in self.containers:
                print(f"--- {container}\n{self.log(container)}")
        for container in self.containers:
            docker("rm", "--force", "--volumes", container, check=False)
        docker("network", "rm", self.name, check=False)

    def run(self, name, *words, flags=()):
        """Starts a container of this name on the network; its id."""
        container = docker("run", "--detach", "--network", self.name, "--network-alias", name, *HARDENED, *flags, IMAGE, *words).stdout.strip()
        self.containers.append(container)
        return container

    def log(self, container):
        done = docker("logs", container)
        return done.stdout + done.stderr

    def address(self, container):
        return docker("inspect", "--format", f'{{{{(index .NetworkSettings.Networks "{self.name}").IPAddress}}}}', container).stdout.strip()


if __name__ == "__main__":
    need_engine()
    build_image()
