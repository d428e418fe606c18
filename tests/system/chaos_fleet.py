"""A gateway and workers, each at a site of its own, that can be killed, frozen and cut off from each other. Linux, root, iproute2."""

import http.client
import json
import os
import pathlib
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import certificates  # noqa: E402
import sites as bench_sites  # noqa: E402

API_PORT, FLEET_PORT, WORKER_PORT = 8080, 7100, 7101
GATEWAY = 0  # its site; worker i has site i, from 1


class ChaosFleet:
    """with ChaosFleet(build, model, workers=4, stages=3) as fleet: ...   What is not of the chain is a spare."""

    def __init__(self, build, model, workers, stages, memory=None, delay_ms=1.0, goes_first=False, gateway_flags=(), worker_flags=(), tls=False):
        """tls: between all of them, with client certificates; else nothing is encrypted."""
        self.build, self.model = pathlib.Path(build), str(model)
        self.worker_count, self.stages, self.delay_ms = workers, stages, delay_ms
        self.gateway_flags = list(gateway_flags)
        self.worker_flags = ["--kv-bytes", "64M", *(["--memory-bytes", memory] if memory else []), *worker_flags]
        self.sites = bench_sites.Sites(workers + 1, self.build / "longhaul-link", goes_first=goes_first)
        self.tls = tls
        self.processes = {}

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="longhaul-chaos-")
        self.sites.__enter__()
        try:
            self.make_certificates()
            self.sites.set(delay=self.delay_ms)
            self.start_gateway()
            for worker in self.workers():
                self.start_worker(worker)
            self.wait_whole(180, self.stages)
        except BaseException:
            self.print_logs()
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
        self.sites.close()
        self.folder.cleanup()

    # ---- Programs

    def workers(self):
        return range(1, self.worker_count + 1)

    def name(self, worker):
        return f"worker-{worker}"

    def number(self, name):
        return int(name.rpartition("-")[2])

    def _start(self, site, name, arguments):
        with open(os.path.join(self.folder.name, f"{name}.log"), "ab") as log:
            self.processes[site] = self.sites.start(site, [self.build / arguments[0], *arguments[1:]], stdout=log, stderr=log)

    def make_certificates(self):
        if self.tls:
            certificates.make_ca(self.folder.name)
        names = {GATEWAY: "gateway", **{worker: self.name(worker) for worker in self.workers()}}
        self.security = {site: certificates.issue(self.folder.name, name, None if site == GATEWAY else name) if self.tls else ["--insecure-plaintext"]
                         for site, name in names.items()}

    def start_gateway(self):
        home = self.sites.address(GATEWAY)
        self._start(
            GATEWAY,
            "gateway",
            ["longhaul-gateway", "--model", self.model, "--listen", f"127.0.0.1:{API_PORT}", "--fleet-listen", f"{home}:{FLEET_PORT}",
             *self.security[GATEWAY], "--workers", self.worker_count, "--stages", self.stages, *self.gateway_flags],
        )

    def start_worker(self, worker):
        name, gateway = self.name(worker), self.sites.address(GATEWAY)
        scheme, listen = ("https", "--listen-tls") if self.tls else ("http", "--listen")
        self._start(
            worker,
            name,
            ["longhaul-worker", "--name", name, "--site", name, "--gateway", f"{scheme}://{gateway}:{FLEET_PORT}", listen,
             f"{self.sites.address(worker)}:{WORKER_PORT}", *self.security[worker], "--threads", 1, "--cache-dir",
             os.path.join(self.folder.name, f"cache-{worker}"), *self.worker_flags],
        )

    def kill(self, site):
        self.processes[site].kill()
        self.processes[site].wait()

    def freeze(self, worker, frozen):
        self.processes[worker].send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def check_running(self):
        for site, process in self.processes.items():
            assert process.poll() is None, f"{self.name(site) if site else 'the gateway'} has ended with status {process.returncode}"

    def print_logs(self, bytes_max=3000):
        for path in sorted(pathlib.Path(self.folder.name).glob("*.log")):
            print(f"---- {path.name}\n{path.read_text(errors='replace')[-bytes_max:]}", flush=True)

    # ---- Links

    def cut(self, source, target, is_cut):
        """Nothing gets from one site to another, or from or to all ("*") of them."""
        self.sites.set(source, target, loss=100 if is_cut else 0)

    # ---- Asking

    def get(self, path, timeout=5):
        try:
            with self.sites.inside(GATEWAY):
                connection = http.client.HTTPConnection("127.0.0.1", API_PORT, timeout=timeout)
                connection.connect()
        except OSError:
            return 0, ""
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def state(self):
        """GET /fleet; {} while the gateway is away."""
        status, text = self.get("/fleet", timeout=0.5)
        return json.loads(text) if status == 200 else {}

    def chain_workers(self):
        chains = self.state().get("chains") or []
        return [self.number(stage["worker"]) for stage in chains[0]["stages"]] if chains else []

    def is_whole(self, stages=1):
        """Every worker is there, and a chain of at least so many stages serves. One that was formed while workers were away is shorter, and grows only
        when they have stayed for the gateway's --rebalance-delay-ms; and later and later if that happens often."""
        state = self.state()
        chains = state.get("chains") or [{}]
        return (
            state.get("state") == "ready"
            and len(state["workers"]) == self.worker_count
            and len(chains[0].get("stages", [])) >= stages
            and self.get("/readyz")[0] == 200
        )

    def wait_whole(self, timeout, stages=1):
        """Seconds that it took."""
        begin = time.monotonic()
        while not self.is_whole(stages):
            self.check_running()
            if time.monotonic() - begin > timeout:
                raise TimeoutError(f"the fleet is not whole within {timeout} s: {json.dumps(self.state())[:2000]}")
            time.sleep(0.03)
        return time.monotonic() - begin
