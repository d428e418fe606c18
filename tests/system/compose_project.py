"""What the Compose files of deploy/ make, in containers and networks of its own; all of it goes when the test ends."""

import contextlib
import ctypes
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid

from containers import IMAGE, ROOT, docker
from programs import SKIPPED, free_port, need_model, wait_until

SITES = ("home", "office", "attic")
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def need_compose():
    if not shutil.which("docker-compose"):
        print("skipped: there is no docker-compose")
        sys.exit(SKIPPED)


class ComposeFile:
    """One file of deploy/ as a project. with ComposeFile("compose.yaml", {...}) as project: project.up()"""

    profiles = ()

    def __init__(self, name, settings):
        self.file = ROOT / "deploy" / name
        self.name = f"longhaultest{uuid.uuid4().hex[:8]}"
        self.settings = {"COMPOSE_PROJECT_NAME": self.name, "IMAGE": IMAGE, **settings}

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind:
            print(self.compose("logs", "--no-color", "--tail", "60", check=False))
        self.compose(*[word for profile in self.profiles for word in ("--profile", profile)], "down", "--volumes", "--timeout", "0", check=False)

    def compose(self, *words, check=True):
        done = subprocess.run(["docker-compose", "--file", self.file, *map(str, words)], capture_output=True, text=True, env={**os.environ, **self.settings})
        if check and done.returncode:
            raise RuntimeError(f"docker-compose {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def up(self, *words, profiles=()):
        """All of it, or these services."""
        self.compose(*[word for profile in profiles for word in ("--profile", profile)], "up", "--detach", "--no-build", *words)

    def containers(self, service):
        return self.compose("ps", "--quiet", service).split()

    def container(self, service):
        return self.containers(service)[0]

    def pid(self, service):
        return int(docker("inspect", "--format", "{{.State.Pid}}", self.container(service)).stdout)


class FleetFile(ComposeFile):
    """With a gateway in it, of the model that the tests have, at 127.0.0.1:port."""

    def __init__(self, name, settings):
        model = pathlib.Path(need_model())
        self.port = free_port()
        super().__init__(name, {"MODELS": str(model.parent), "MODEL": model.name, "PORT": str(self.port), **settings})

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return json.load(answer)

    def workers(self):
        """Those that the gateway knows: name -> what it tells of them."""
        try:
            return {worker["name"]: worker for worker in self.get("/fleet")["workers"]}
        except OSError:
            return {}

    def is_ready(self):
        try:
            return bool(self.get("/readyz"))
        except OSError:
            return False

    def wait_whole(self, names=tuple(f"{site}-1" for site in SITES)):
        """It serves, and just these workers report."""
        wait_until(lambda: self.workers().keys() == set(names) and self.is_ready(), f"{', '.join(names)} are there")

    def complete(self, **request):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions", json.dumps(request).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)["choices"][0]


class Project(FleetFile):
    """Three sites on this machine. with Project() as project: project.up()"""

    profiles = ("links", "observability")

    def __init__(self):
        self.between = f"10.{random.randrange(128, 255)}.{random.randrange(255)}"
        super().__init__("compose.yaml", {"BETWEEN": f"{self.between}.0/24"})

    def address(self, service):
        """On the network between the sites."""
        return docker("inspect", "--format", f'{{{{(index .NetworkSettings.Networks "{self.name}_between").IPAddress}}}}', self.container(service)).stdout.strip()

    @contextlib.contextmanager
    def inside(self, service):
        """This thread is in the container's network meanwhile."""
        with open("/proc/thread-self/ns/net") as home, open(f"/proc/{self.pid(service)}/ns/net") as there:
            if _libc.setns(there.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                _libc.setns(home.fileno(), CLONE_NEWNET)

    def socket(self, service, kind=socket.SOCK_STREAM, protocol=0):
        with self.inside(service):
            return socket.socket(socket.AF_INET, kind, protocol)
