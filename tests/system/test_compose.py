"""deploy/compose.yaml with docker-compose: three sites from nothing to the first token, answers to the bit, and what happens to streams while
containers are cut off; with LONGHAUL_TEST_THOROUGH=1 (tests/run --thorough), which takes minutes, also while they are stopped, killed, paused
and replaced, and with emulated links. Skipped where no Docker engine answers, or there is no docker-compose."""

import json
import os
import pathlib
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

import compose_project
import containers
from compose_project import SITES, Project
from containers import docker
from fleet import Fleet
from programs import free_port, lacking, run_tests, wait_until
from stream import Stream
from test_link_emulator import Ping, bench_sites, payload_mbit
from test_metrics import tool

PROMPT = "The longest bridge"
TOKENS = 24
LONG = 160
LINK_MBIT, LINK_DELAY_MS = 50, 10
FIRST_TOKEN_S_MAX, SEEN_S_MAX, HEALED_S_MAX = 30, 3, 10
# A link's round trip may be later by a millisecond, its rate is met within a twentieth: the best of so many, since neighbours take processors.
LATE_MS, RATE_SHARE, TRIES = 1, 0.05, 5
# What is left of a link's rate beside the headers of Ethernet, IP and TCP.
PAYLOAD_SHARE = 0.965

takes_a_minute = unittest.skipUnless(os.environ.get("LONGHAUL_TEST_THOROUGH"), "LONGHAUL_TEST_THOROUGH is not set")


class Load:
    """Requests one after the other, from several clients, until it is told to end. asks_again: a client that finds nobody at the port, or is told
    that the server is not there now (503), asks again, as OpenAI's do."""

    def __init__(self, project, clients=2, asks_again=False):
        self.project, self.asks_again, self.answers, self.failures, self.is_over = project, asks_again, [], [], False
        self.threads = [threading.Thread(target=self.run) for _ in range(clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        wait_until(lambda: self.answers or self.failures, "the first answer")
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()

    def run(self):
        while not self.is_over:
            try:
                self.answers.append(self.project.complete(prompt=PROMPT, max_tokens=TOKENS, temperature=0)["text"])
            except Exception as error:  # noqa: BLE001: whatever a client would see
                if not (self.asks_again and self.is_absence(error)):
                    self.failures.append(error)
                time.sleep(0.2)

    @staticmethod
    def is_absence(error):
        if isinstance(error, urllib.error.HTTPError):
            return error.code == 503
        return isinstance(error, ConnectionError) or isinstance(getattr(error, "reason", None), ConnectionError)


class Compose(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        containers.build_image()
        cls.project = cls.enterClassContext(Project())
        began = time.monotonic()
        cls.project.up()
        cls.project.wait_whole()
        with Stream(cls.project.port, PROMPT, TOKENS) as stream:
            stream.read(1)
            cls.first_token_s = time.monotonic() - began
            stream.finish()
        with Fleet(workers=1) as fleet:
            fleet.wait_ready()
            with Stream(fleet.port, PROMPT, LONG, logprobs=1) as stream:
                cls.expected = stream.finish().tokens

    def setUp(self):
        self.project.wait_whole()

    def stream(self):
        return Stream(self.project.port, PROMPT, LONG, logprobs=1)

    def assert_unharmed(self, stream):
        self.assertIsNone(stream.error)
        self.assertTrue(stream.is_done)
        self.assertEqual(stream.tokens, self.expected)

    def test_the_first_token_comes_soon(self):
        print(f"    first token after {self.first_token_s:.1f} s with the image there")
        self.assertLess(self.first_token_s, FIRST_TOKEN_S_MAX)

    def test_answers_are_those_of_one_process(self):
        with self.stream() as stream:
            self.assert_unharmed(stream.finish())

    def test_programs_have_no_rights(self):
        for service in ("gateway", *SITES):
            status = pathlib.Path(f"/proc/{self.project.pid(service)}/status").read_text()
            for line in ("Uid:\t10001\t10001\t10001\t10001", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"):
                self.assertIn(line, status)
            # There is no shell to write with; this makes folders where it is told to.
            done = docker("exec", self.project.container(service), "longhaul-gateway", "token", "--site", "x", "--state-dir", "/usr/state", "--output-dir",
                          "/usr/tokens", check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("Read-only file system", done.stderr)

    def test_they_check_themselves(self):
        lines = [self.lines_of_connections(site) for site in SITES]
        for service in ("gateway", *SITES):
            program = "longhaul-gateway" if service == "gateway" else "longhaul-worker"
            self.assertEqual(docker("exec", self.project.container(service), program, "check").stdout, '{"status":"ok"}\n')
        self.assertEqual([self.lines_of_connections(site) for site in SITES], lines)

    def lines_of_connections(self, site):
        return docker("logs", self.project.container(site)).stderr.count(" h2: ")

    @takes_a_minute
    def test_streams_outlive_a_worker(self):
        for harm, remedy in (("stop", "start"), ("kill", "start"), ("pause", "unpause")):
            with self.subTest(harm), self.stream() as stream:
                stream.read(8)
                docker(harm, self.project.container("office"))
                self.assert_unharmed(stream.finish())
                print(f"    {harm}: a pause of {max(stream.gaps):.1f} s")
                docker(remedy, self.project.container("office"))
                self.project.wait_whole()

    def test_a_site_that_is_cut_off_comes_back(self):
        network, container = f"{self.project.name}_between", self.project.container("attic")
        with self.stream() as stream:
            stream.read(8)
            docker("network", "disconnect", network, container)
            cut = time.monotonic()
            wait_until(lambda: "attic-1" not in self.project.workers(), "the gateway knows that attic is gone")
            seen_s = time.monotonic() - cut
            self.assert_unharmed(stream.finish())
        # Compose gives the service a name there, which "connect" alone does not.
        docker("network", "connect", "--alias", "attic", network, container)
        back = time.monotonic()
        self.project.wait_whole()
        healed_s = time.monotonic() - back
        print(f"    seen after {seen_s:.1f} s, healed after {healed_s:.1f} s")
        self.assertLess(seen_s, SEEN_S_MAX)
        self.assertLess(healed_s, HEALED_S_MAX)

    def prometheus_says(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.project.settings['PROMETHEUS_PORT']}/api/v1/{path}", timeout=10) as answer:
                return json.load(answer)["data"]
        except OSError:
            return {}

    def test_prometheus_scrapes_every_site(self):
        """Profile observability with Debian's Prometheus in the place of the makers' image. There is no Grafana."""
        program = tool("prometheus")
        if not program:
            raise lacking("prometheus is not there: tests/run fetches Debian's")
        image = f"{self.project.name}-prometheus"
        containers.import_program(image, program, 'ENTRYPOINT ["/usr/bin/prometheus"]', "USER 65534", folders=["prometheus"])
        self.addCleanup(docker, "rmi", "--force", image)
        self.project.settings |= {"PROMETHEUS_IMAGE": image, "PROMETHEUS_PORT": str(free_port())}
        self.project.up("prometheus", profiles=["observability"])
        self.addCleanup(self.project.compose, "--profile", "observability", "rm", "--stop", "--force", "prometheus")

        def healthy():
            targets = self.prometheus_says("targets").get("activeTargets", [])
            return sorted(target["labels"].get("service", "gateway") for target in targets if target["health"] == "up")
        wait_until(lambda: healthy() == sorted(["gateway", *SITES]), "gateway and sites are scraped")
        rules = self.prometheus_says("rules")["groups"]
        self.assertIn("LonghaulNoChain", [rule["name"] for group in rules for rule in group["rules"]])

    def replace(self, service, load):
        before, answered = self.project.container(service), len(load.answers)
        self.project.compose("rm", "--stop", "--force", service)
        self.project.up(service)
        self.assertNotEqual(self.project.container(service), before)
        self.project.wait_whole()
        wait_until(lambda: len(load.answers) > answered + 2 or load.failures, "answers go on")

    def assert_none_failed(self, what, load):
        print(f"    {what}: {len(load.answers)} answers, {len(load.failures)} failed")
        self.assertEqual(load.failures, [])
        self.assertEqual(len(set(load.answers)), 1)

    def test_a_container_is_replaced_under_load(self):
        """Whoever takes a container's place is who that one was."""
        with Load(self.project) as load:
            self.replace("office", load)
        self.assert_none_failed("office", load)

    @takes_a_minute
    def test_every_container_is_replaced_under_load(self):
        with Load(self.project) as load:
            for site in SITES:
                self.replace(site, load)
        self.assert_none_failed("workers", load)
        with Load(self.project, asks_again=True) as load:
            self.replace("gateway", load)
        self.assert_none_failed("gateway", load)

    @takes_a_minute
    def test_a_site_is_scaled(self):
        self.project.up("--scale", "office=2")
        self.project.wait_whole(("home-1", "office-1", "office-2", "attic-1"))
        for container in self.project.containers("office"):
            self.assertEqual(docker("exec", container, "longhaul-worker", "check").stdout, '{"status":"ok"}\n')
        with self.stream() as stream:
            self.assert_unharmed(stream.finish())
        self.project.up("--scale", "office=1")
        wait_until(lambda: len([name for name in self.project.workers() if name.startswith("office")]) == 1, "one worker is left at the office")

    @takes_a_minute
    def test_links_between_the_sites(self):
        self.project.settings |= {"LINK_RATE": str(LINK_MBIT), "LINK_DELAY": str(LINK_DELAY_MS)}
        self.project.up(profiles=["links"])
        try:
            wait_until(lambda: all("goes through the uplink" in docker("logs", self.project.container(f"uplink-{site}")).stderr for site in SITES),
                       "the uplinks are there")
            ping = Ping(self.project, "home", "office")
            self.addCleanup(ping.socket.close)
            found_ms = min(ping.milliseconds() for _ in range(15))
            rates = [payload_mbit(self.project, "home", "office", 1) / PAYLOAD_SHARE for _ in range(TRIES)]
            print(f"    round trip {found_ms:.2f} of {2 * LINK_DELAY_MS} ms, {', '.join(f'{rate:.1f}' for rate in rates)} of {LINK_MBIT} Mbit/s")
            self.assertTrue(2 * LINK_DELAY_MS <= found_ms < 2 * LINK_DELAY_MS + LATE_MS, found_ms)
            self.assertLess(abs(max(rates) / LINK_MBIT - 1), RATE_SHARE)
            with self.stream() as stream:
                self.assert_unharmed(stream.finish())
            # A worker that starts anew has its line again.
            docker("kill", self.project.container("home"))
            docker("start", self.project.container("home"))
            self.project.wait_whole()
            ping = Ping(self.project, "home", "office")
            self.addCleanup(ping.socket.close)
            wait_until(lambda: ping.milliseconds() > 2 * LINK_DELAY_MS - 0.5, "what home sends goes through its uplink again")
        finally:
            self.project.compose("--profile", "links", "rm", "--stop", "--force", "uplink-gateway", *[f"uplink-{site}" for site in SITES])


if __name__ == "__main__":
    containers.need_engine()
    compose_project.need_compose()
    bench_sites.watch_punctually()
    run_tests(sys.modules[__name__])
