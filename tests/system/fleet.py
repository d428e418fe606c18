"""A gateway and its workers on loopback, as the tests of the whole start them."""

import json
import os
import re
import signal
import tempfile
import time
import urllib.error
import urllib.request

from programs import PATIENCE_S, Program, build_folder, free_port, need_file, need_model, slowness, wait_until
from raw_http import ask


class Fleet:
    """with Fleet(workers=2) as fleet: ... fleet.url ...   Logs stay in `folder` while it runs, and are printed when it fails to. A program
    that does not end well (sanitizers tell of leaks so) fails the test."""

    fair_ends = {0, -signal.SIGKILL}
    fleet_host = gateway_host = "127.0.0.1"  # where the fleet port is, and how workers name that
    # All of its workers come at once, so nobody waits for more.
    QUICK_START = ["--plan-delay-ms", "100", "--renew-ms", "100"]

    def __init__(self, workers=2, gateway_flags=(), worker_flags=(), model=None, threads=1, fetches=False,
                 worker_programs=None):
        """fetches: the workers get their weights from the gateway and cache them, instead of from the model's file. worker_programs: number -> the
        command that stands for longhaul-worker."""
        build = build_folder()
        self.gateway_program = need_file(build / "longhaul-gateway", "longhaul-gateway is not built")
        self.worker_program = need_file(build / "longhaul-worker", "longhaul-worker is not built")
        self.worker_programs = worker_programs or {}
        self.model = model or need_model()
        self.worker_count = workers
        # A step of a long prompt may take as long as a hang lasts elsewhere, where a sanitizer shares the machine with others.
        patience = ["--step-timeout-ms", str(30000 * slowness())] if slowness() > 1 else []
        self.gateway_flags = [*self.QUICK_START, *patience, *gateway_flags]
        self.worker_flags = [*([] if fetches else ["--model", self.model]), *worker_flags]
        self.threads = threads
        self.gateway = None
        self.workers = []

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="longhaul-fleet-")
        self.folder = self.temporary.name
        self.port = free_port()
        self.fleet_port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        try:
            self.start_gateway()
            wait_until(lambda: self.get("/livez")[0] == 200 or not self.gateway.is_running(), "the gateway is there")
            for number in range(self.worker_count):
                self.start_worker(number)
            self.wait_ready()
        except BaseException:
            self.print_logs()
            self.stop()
            raise
        return self

    def __exit__(self, kind, error, trace):
        if kind:
            self.print_logs()
        badly = self.stop()
        assert kind or not badly, badly

    def start_gateway(self):
        self.gateway = Program(
            "gateway",
            [self.gateway_program, "--model", self.model, "--listen", f"127.0.0.1:{self.port}", "--fleet-listen",
             f"{self.fleet_host}:{self.fleet_port}", "--workers", str(self.worker_count), *self.gateway_flags],
            self.folder,
        )

    def gateway_port_for(self, number):
        """Where this worker reaches the gateway."""
        return self.fleet_port

    def cache_folder(self, number):
        return os.path.join(self.folder, f"cache-{number + 1}")

    def start_worker(self, number):
        name = f"worker-{number + 1}"
        # None of the kernel's own ports: a test that asks where nobody listens any more would find this worker.
        worker = Program(
            name,
            [*self.worker_programs.get(number, [self.worker_program]), "--name", name, "--site", f"site-{number + 1}", "--gateway",
             f"http://{self.gateway_host}:{self.gateway_port_for(number)}", "--listen", f"127.0.0.1:{free_port()}", "--threads", str(self.threads),
             "--cache-dir", self.cache_folder(number), *self.worker_flags],
            self.folder,
        )
        if number < len(self.workers):
            self.workers[number] = worker
        else:
            self.workers.append(worker)
        return worker

    def programs(self):
        return [p for p in (self.gateway, *self.workers) if p]

    def get(self, path, timeout=PATIENCE_S):
        """Status code and body."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def fleet_state(self):
        return json.loads(self.get("/fleet")[1])

    def drawn(self, key=None):
        """(token, position, digest of the logits) of the last sequence, in the log of a gateway with --logits-digest. Who answers does not wait for
        the log, so one request more is made: where its line has been written, all before it has."""
        name = f"drawn-{time.monotonic_ns()}"
        headers = [("X-Request-Id", name), *([("Authorization", f"Bearer {key}")] if key else [])]
        assert ask(self.port, "POST", "/v1/completions", {"prompt": [1], "max_tokens": 1, "ignore_eos": True}, headers).status == 200
        log = wait_until(lambda: next((text for text in [self.gateway.log_text()] if f" id={name}" in text), None), f"{name} is in the log")
        found = re.findall(r"digest token=(\d+) position=(\d+) digest=(\w+) sequence=(\d+)", log)
        before = [drawn for drawn in found if drawn[3] != found[-1][3]]
        return [(int(token), int(position), digest) for token, position, digest, number in before if number == before[-1][3]]

    def wait_ready(self):
        def ready():
            for program in self.programs():
                if not program.is_running():
                    raise RuntimeError(f"{program.name} has ended with status {program.process.returncode}")
            return self.get("/health")[0] == 200

        wait_until(ready, "GET /health says 200")

    def wait_not_ready(self):
        wait_until(lambda: self.get("/health")[0] != 200, "GET /health says no more 200")

    def print_logs(self):
        for program in self.programs():
            print(f"---- {program.name}\n{program.log_text()[-4000:]}")

    def stop(self):
        """What there is to say of programs that did not end well. The gateway goes first: while it is there, workers that are to leave wait for
        others to take over."""
        badly = ""
        programs = self.programs()
        if self.gateway:
            self.gateway.stop()
        for program in programs:
            program.ask_to_stop()
        for program in programs:
            status = program.stop()
            if status not in self.fair_ends:
                badly += f"{program.name} ended with {status}:\n{program.log_text()[-6000:]}\n"
        self.gateway, self.workers = None, []
        self.temporary.cleanup()
        return badly
