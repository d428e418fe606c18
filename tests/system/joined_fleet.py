"""A gateway with a CA of its own, and workers that have joined it with a line each."""

import json
import pathlib
import tempfile
import urllib.request

from joining import LOOPBACK, OwnFleet
from programs import PATIENCE_S, Program, build_folder, free_port, need_file, slowness, wait_until


class JoinedFleet:
    """with JoinedFleet(workers=2) as fleet: ...   fleet.port and fleet.url are the API's, fleet.own the gateway and its commands."""

    QUICK_START = ["--plan-delay-ms", "100", "--renew-ms", "100"]

    def __init__(self, workers=1, gateway_flags=(), others=()):
        """others: names of workers that join beside them, and are not waited for by the first plan."""
        self.names, self.gateway_flags = [*(f"worker-{number + 1}" for number in range(workers)), *others], gateway_flags
        self.worker_count = workers
        self.worker_program = need_file(build_folder() / "longhaul-worker", "longhaul-worker is not built")
        self.workers = {}

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="longhaul-joined-")
        self.folder = pathlib.Path(self.temporary.name)
        self.own = OwnFleet(self.folder, ["--workers", str(self.worker_count), *self.QUICK_START, "--lease-ms", str(3000 * slowness()),
                                          *self.gateway_flags])
        self.port, self.fleet_port = self.own.api_port, self.own.port
        self.url = f"http://{LOOPBACK}:{self.port}"
        try:
            for name in self.names:
                token = self.own.token("--name", name)
                self.start_worker(name, "join", f"https://{LOOPBACK}:{self.fleet_port}", token.text)
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def state_folder(self, name):
        """Of a worker."""
        return self.folder / name

    def start_worker(self, name, *words):
        self.workers[name] = Program(name, [self.worker_program, *words, "--state-dir", self.state_folder(name), "--listen-tls",
                                            f"{LOOPBACK}:{free_port()}", "--model", self.own.model, "--threads", "1", "--cache-dir",
                                            self.folder / f"{name}-cache", "--drain-timeout", "0"], self.folder)
        return self.workers[name]

    def programs(self):
        return [self.own.gateway, *self.workers.values()]

    def state(self):
        with urllib.request.urlopen(f"{self.url}/fleet", timeout=PATIENCE_S) as answer:
            return json.loads(answer.read())

    def wait_ready(self):
        def is_ready():
            for program in self.programs():
                assert program.is_running(), f"{program.name} has ended:\n{program.log_text()[-2000:]}"
            state = self.state()
            return state["state"] == "ready" and {worker["name"] for worker in state["workers"]} >= set(self.names)

        wait_until(is_ready, "a chain")

    def stop(self):
        self.own.stop()
        for worker in self.workers.values():
            worker.kill()
            worker.stop()
        self.temporary.cleanup()
