"""GET /metrics of a gateway and its workers: clean for promtool, right in its figures, all of it in the operator's table; and each query of the
dashboard and each alert is answered by a real Prometheus that scrapes them."""

import ctypes
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from fleet import Fleet
from programs import PATIENCE_S, Program, free_port, lacking, run_tests, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
OBSERVABILITY = ROOT / "deploy" / "observability"
SCRAPE_S = 1


def tool(name):
    """promtool or prometheus; None: it is not there."""
    folder = os.environ.get("LONGHAUL_PROMETHEUS", ROOT / ".cache" / "prometheus" / "usr" / "bin")
    path = pathlib.Path(folder) / name
    return str(path) if path.exists() else shutil.which(name)


def promtool(*words, stdin=None, cwd=None):
    program = tool("promtool")
    if not program:
        raise lacking("promtool is not there: tests/run fetches Debian's prometheus")
    return subprocess.run([program, *words], input=stdin, capture_output=True, text=True, cwd=cwd, timeout=PATIENCE_S)


def metrics_port(program):
    return int(wait_until(lambda: re.search(r"metrics_port=(\d+)", program.log_text()), f"{program.name} has a metrics port")[1])


def fetch(port, path="/metrics", timeout=PATIENCE_S):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def samples(text):
    """{name with labels: value}"""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def families(text):
    return re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)


def post(fleet, body):
    request = urllib.request.Request(fleet.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def ask(fleet, tokens, **more):
    return post(fleet, {"messages": [{"role": "user", "content": "Tell me of the sea."}], "max_tokens": tokens, "temperature": 0, **more})


class HeldThread:
    """One thread of a process stands still meanwhile, and the others go on."""

    ATTACH, DETACH, WALL = 16, 17, 0x40000000

    def __init__(self, thread):
        self.thread = thread
        self.libc = ctypes.CDLL(None, use_errno=True)

    def ptrace(self, what):
        if self.libc.ptrace(what, self.thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def __enter__(self):
        self.ptrace(self.ATTACH)
        os.waitpid(self.thread, self.WALL)

    def __exit__(self, *_):
        self.ptrace(self.DETACH)


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        flags = ["--metrics-listen", "127.0.0.1:0"]
        cls.fleet = cls.enterClassContext(Fleet(workers=2, gateway_flags=flags, worker_flags=flags))
        cls.gateway_port = metrics_port(cls.fleet.gateway)
        cls.worker_ports = [metrics_port(worker) for worker in cls.fleet.workers]

    def gateway(self):
        return samples(fetch(self.gateway_port)[1])

    def await_figure(self, name, wanted):
        """What the engine tells is published once a second."""
        return wait_until(lambda: (figures := self.gateway()).get(name) == wanted and figures, f"{name} is {wanted}")

    def test_promtool_finds_nothing_to_say(self):
        for port in (self.gateway_port, *self.worker_ports):
            status, text, headers = fetch(port)
            self.assertEqual(status, 200)
            self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            checked = promtool("check", "metrics", stdin=text)
            self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))

    def test_the_figures_are_those_of_the_answers(self):
        before = self.gateway()
        usages = [ask(self.fleet, tokens)[1]["usage"] for tokens in (1, 5, 9)]
        self.assertEqual(ask(self.fleet, -3)[0], 400)
        self.assertEqual(ask(self.fleet, 3, model="another")[0], 404)
        after = self.gateway()

        def grown(name):
            return after.get(name, 0) - before.get(name, 0)

        drawn = sum(usage["completion_tokens"] for usage in usages)
        self.assertEqual(grown("longhaul_prompt_tokens_total"), sum(usage["prompt_tokens"] for usage in usages))
        self.assertEqual(grown("longhaul_generation_tokens_total"), drawn)
        self.assertEqual(grown('longhaul_request_finished_total{finished_reason="length"}'), 3)
        self.assertEqual(grown("longhaul_request_time_to_first_token_seconds_count"), 3)
        self.assertEqual(grown("longhaul_time_per_output_token_seconds_count"), drawn - 3)
        self.assertEqual(grown("longhaul_e2e_request_latency_seconds_count"), 3)
        self.assertGreater(grown("longhaul_e2e_request_latency_seconds_sum"), grown("longhaul_request_time_to_first_token_seconds_sum"))
        self.assertEqual(grown('longhaul_request_refusals_total{reason="model_not_found"}'), 1)
        # The connection is told its answer before the log and the metrics are told of it.
        self.await_figure('longhaul_http_requests_total{route="/v1/chat/completions",status="200"}',
                          before.get('longhaul_http_requests_total{route="/v1/chat/completions",status="200"}', 0) + 3)
        steps = before['longhaul_steps_total{chain="main"}']
        wait_until(lambda: self.gateway()['longhaul_steps_total{chain="main"}'] >= steps + drawn, "the steps are counted")

    def test_a_client_that_leaves_is_counted(self):
        name = 'longhaul_request_finished_total{finished_reason="abort"}'
        before = self.gateway()[name]
        body = json.dumps({"messages": [{"role": "user", "content": "Count."}], "max_tokens": 2000, "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", self.fleet.port)) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            client.recv(100)
        self.await_figure(name, before + 1)
        self.await_figure("longhaul_requests_running", 0)

    def test_chain_hops_and_workers_are_told(self):
        told = {'longhaul_chain_ready{chain="main"}': 1, "longhaul_workers": 2, 'longhaul_gateway_state{state="ready"}': 1,
                'longhaul_hop_wire_info{chain="main",from="worker-1",to="worker-2",wire="f32"}': 1}
        for here, there in (("gateway", "worker-1"), ("worker-1", "worker-2"), ("worker-2", "gateway")):
            told[f'longhaul_hop_up{{chain="main",from="{here}",to="{there}"}}'] = 1
        # All in one scrape: the state is that of the moment and the others' is of a second ago, and a chain that has just been built
        # anew (after the engine was held) is told by the one before the others.
        wait_until(lambda: told.items() <= self.gateway().items(), f"one scrape tells {told}")
        ask(self.fleet, 4)
        wait_until(lambda: samples(fetch(self.worker_ports[0])[1])["longhaul_stage_compute_seconds_total"] > 0, "the worker counts its work")

    def test_the_port_has_the_probes_and_no_more(self):
        self.assertEqual(fetch(self.gateway_port, "/health")[0], 200)
        self.assertEqual(fetch(self.gateway_port, "/readyz")[0], 200)
        self.assertEqual(fetch(self.gateway_port, "/livez")[0], 200)
        self.assertEqual(fetch(self.worker_ports[0], "/livez")[0], 200)
        self.assertEqual(fetch(self.gateway_port, "/fleet")[0], 404)

    def test_a_scrape_waits_for_no_thread_of_the_engine(self):
        """The engine's thread is the one with which the figures of the fleet stand still: they are told once a second otherwise."""
        told, held = "longhaul_fleet_snapshot_timestamp_seconds", []
        for thread in sorted(int(name) for name in os.listdir(f"/proc/{self.fleet.gateway.process.pid}/task")):
            try:
                with HeldThread(thread):
                    before = samples(fetch(self.gateway_port, timeout=3)[1])[told]
                    time.sleep(2.5)
                    began = time.monotonic()
                    after = samples(fetch(self.gateway_port, timeout=3)[1])[told]
                    took_s = time.monotonic() - began
            except PermissionError:
                self.skipTest("nobody may hold a thread here: run as root, with CAP_SYS_PTRACE")
            except OSError:
                continue  # no answer in time: the port's own thread
            if before == after:
                held.append(thread)
                print(f"    a scrape took {took_s * 1000:.1f} ms while the engine was held")
                break
        self.assertEqual(len(held), 1)
        self.await_figure("longhaul_workers", 2)

    def test_the_operators_table_has_each_metric(self):
        table = dict(re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|", (ROOT / "docs" / "OPERATING.md").read_text(), re.M))
        told = dict(families(fetch(self.gateway_port)[1]) + families(fetch(self.worker_ports[0])[1]))
        told["longhaul_worker_certificate_expiry_timestamp_seconds"] = "gauge"  # of a fleet with certificates
        self.assertEqual(table, told)

    def test_prometheus_answers_every_query(self):
        program = tool("prometheus")
        if not program:
            raise lacking("prometheus is not there: tests/run fetches Debian's")
        port = free_port()
        folder = pathlib.Path(self.fleet.folder)
        settings, found = re.subn(r"dns_sd_configs:.*?port: 7103", "static_configs:\n      - targets: [{}]".format(
            ", ".join(f'"127.0.0.1:{target}"' for target in self.worker_ports)), (OBSERVABILITY / "prometheus.yml").read_text(), flags=re.S)
        self.assertTrue(found == 1 and "gateway:7102" in settings)
        settings = settings.replace("gateway:7102", f"127.0.0.1:{self.gateway_port}")
        settings = settings.replace("scrape_interval: 5s", f"scrape_interval: {SCRAPE_S}s")
        (folder / "prometheus.yml").write_text(settings)
        shutil.copy(OBSERVABILITY / "alerts.yml", folder)
        prometheus = Program("prometheus", [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                                            f"--web.listen-address=127.0.0.1:{port}"], folder)
        self.addCleanup(prometheus.stop)

        def results(query):
            try:
                status, body, _ = fetch(port, "/api/v1/query?" + urllib.parse.urlencode({"query": query}))
            except OSError:
                return None
            self.assertIn(status, (200, 503), f"{query}: {body}")
            return json.loads(body)["data"]["result"] if status == 200 else None

        wait_until(lambda: len(results('up{job=~"longhaul-.*"} == 1') or []) == 3, "Prometheus has scraped all three")
        ask(self.fleet, 8)
        ask(self.fleet, 3, model="another")
        panels = json.loads((OBSERVABILITY / "grafana" / "dashboards" / "longhaul.json").read_text())["panels"]
        queries = [target["expr"].replace("$__rate_interval", "30s") for panel in panels for target in panel.get("targets", ())]
        self.assertGreater(len(queries), 40)
        for query in queries:
            wait_until(lambda: results(query), f"Prometheus has samples for {query}")
        # What an alert compares is there, whether or not it fires.
        for expression in re.findall(r"expr: (?:>-\s+)?(.*?)\n +(?:for|labels):", (OBSERVABILITY / "alerts.yml").read_text(), re.S):
            for name in re.findall(r"longhaul_\w+|process_\w+|\bup\b", expression):
                if name != "longhaul_worker_certificate_expiry_timestamp_seconds":
                    wait_until(lambda: results(name), f"Prometheus has samples for {name}")
            self.assertIsNotNone(results(" ".join(expression.split())))


class Rules(unittest.TestCase):
    def test_each_alert_fires_when_it_should(self):
        tested = promtool("test", "rules", "alerts_test.yml", cwd=OBSERVABILITY)
        self.assertEqual(tested.returncode, 0, tested.stdout + tested.stderr)
        rules, tests = ((OBSERVABILITY / name).read_text() for name in ("alerts.yml", "alerts_test.yml"))
        alerts = set(re.findall(r"alert: (\w+)", rules))
        self.assertEqual(alerts, set(re.findall(r"alertname: (\w+)", tests)))
        book = (ROOT / "docs" / "OPERATING.md").read_text()
        self.assertEqual(alerts, set(re.findall(r"^\| `(Longhaul\w+)` \|", book, re.M)))

    def test_the_settings_are_sound(self):
        checked = promtool("check", "config", "prometheus.yml", cwd=OBSERVABILITY)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


class Ports(unittest.TestCase):
    def test_without_a_port_the_programs_serve_all_the_same(self):
        with Fleet(workers=1, gateway_flags=["--metrics-listen", "off"], worker_flags=["--metrics-listen", "off"]) as fleet:
            self.assertEqual(metrics_port(fleet.gateway), 0)
            self.assertEqual(metrics_port(fleet.workers[0]), 0)
            self.assertEqual(ask(fleet, 2)[0], 200)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
