"""A worker that only its own site reaches, behind one that speaks for it: four machines in network namespaces, over TLS between the sites. The gateway
and the worker at home have no route to the worker behind; what goes through is the same to the bit, a relay that is killed is replaced in
mid-stream, and whoever is not the one before the worker in its chain is refused there."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from certificates import issue, make_ca
from programs import SKIPPED, need_model, run_tests, wait_until
from test_tls_sites import Machine, namespaces_work, run

HOME, OFFICE, OUTGOING = "192.0.2.1", "198.51.100.7", "203.0.113.9"  # the last: what the worker behind is seen as, where nobody listens
INSIDE, BEHIND = "10.77.0.1", "10.77.0.2"
TOKENS = 48
RELAYS = {"barn", "hut"}


def cable(one, other, name, address, other_address):
    run("ip", "-n", one.name, "link", "add", name, "type", "veth", "peer", "name", name, "netns", other.name)
    for machine, own in ((one, address), (other, other_address)):
        run("ip", "-n", machine.name, "address", "add", f"{own}/32", "dev", name)
        run("ip", "-n", machine.name, "link", "set", name, "up")
    run("ip", "-n", one.name, "route", "add", other_address, "dev", name)
    run("ip", "-n", other.name, "route", "add", address, "dev", name)


class SiteRelay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(cls.tidy)
        cls.machines, cls.programs = [], {}
        cls.temporary = tempfile.TemporaryDirectory(prefix="longhaul-relay-")
        cls.folder = pathlib.Path(cls.temporary.name)
        make_ca(cls.folder)
        for name, address in (("home", HOME), ("office", OFFICE), ("attic", BEHIND)):
            cls.machines.append(Machine(name, address, cls.folder))
        cls.home, cls.office, cls.attic = cls.machines
        cls.lay_cables()
        cls.start_all()

    @classmethod
    def lay_cables(cls):
        """Out goes the worker behind by its site's router, which is the office's machine; nothing at home knows a way to its listener."""
        cable(cls.home, cls.office, "wan", HOME, OFFICE)
        cable(cls.office, cls.attic, "lan", INSIDE, BEHIND)
        run("ip", "-n", cls.attic.name, "address", "add", f"{OUTGOING}/32", "dev", "lan")
        run("ip", "-n", cls.attic.name, "route", "add", "default", "via", INSIDE, "dev", "lan", "src", OUTGOING)
        run("ip", "-n", cls.office.name, "route", "add", OUTGOING, "dev", "lan")
        run("ip", "-n", cls.home.name, "route", "add", OUTGOING, "via", OFFICE, "dev", "wan", "onlink")
        run("ip", "netns", "exec", cls.office.name, "sysctl", "-qw", "net.ipv4.ip_forward=1")

    @classmethod
    def start_all(cls):
        cls.model = need_model()
        cls.start(cls.home, "gateway", f"longhaul-gateway --model {cls.model} --site home --sites home,office --wire f32 --listen 127.0.0.1:8080 "
                  f"--fleet-listen {HOME}:7100 --workers 4 --renew-ms 600 --plan-delay-ms 200 --rebalance off --logits-digest {cls.certificate('gateway')}")
        cls.worker(cls.home, "den", "home", f"--listen-tls {HOME}:7101")
        for number, name in enumerate(sorted(RELAYS)):  # without the memory for a layer: they relay, and do nothing else
            cls.worker(cls.office, name, "office", f"--listen-tls {OFFICE}:{7101 + number} --relay --memory-bytes 1M")
        cls.worker(cls.attic, "attic", "office", f"--listen-tls {BEHIND}:7101 --behind-relay")
        cls.wait_ready()

    @classmethod
    def certificate(cls, name, site=None):
        return " ".join(str(word) for word in issue(cls.folder, name, site))

    @classmethod
    def start(cls, machine, name, command):
        cls.programs[name] = machine.start(name, command)

    @classmethod
    def worker(cls, machine, name, site, flags):
        cls.start(machine, name, f"longhaul-worker --name {name} --gateway https://{HOME}:7100 --model {cls.model} --threads 1 --kv-bytes 64M "
                  f"--metrics-listen off --cache-dir {machine.folder}/cache-{name} {flags} {cls.certificate(name, site)}")

    @classmethod
    def wait_ready(cls):
        try:
            wait_until(lambda: '"ok"' in cls.home.get("/health"), "the chain is ready")
        except BaseException:
            for program in cls.programs.values():
                print(f"---- {program.name}\n{program.log_text()[-3000:]}")
            raise

    @classmethod
    def tidy(cls):
        for program in cls.programs.values():
            program.ask_to_stop()
        badly = [program.log_text()[-3000:] for program in cls.programs.values() if program.stop() not in (0, -9)]
        for machine in cls.machines:
            machine.remove()
        cls.temporary.cleanup()
        assert not badly, "\n".join(badly)

    def fleet(self):
        return json.loads(self.home.get("/fleet"))

    def stages(self):
        chains = self.fleet()["chains"]
        return [(stage["worker"], stage["via"]) for stage in chains[0]["stages"]] if chains else []

    def relay(self):
        """Of the worker behind."""
        return dict(self.stages())["attic"]

    def stream(self, disturb=lambda: None):
        """Text and logprobs of a streamed completion; `disturb` is called when the first tokens are there."""
        body = json.dumps({"prompt": "Once upon a time there was a house with an attic, and in it", "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True,
                           "stream": True, "logprobs": 1})
        curl = f"curl -sSN --max-time 120 http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' -d '{body}'"
        events = []
        with subprocess.Popen(self.home.command(curl), stdout=subprocess.PIPE, text=True) as client:
            for line in client.stdout:
                if line.startswith("data: "):
                    events.append(line[6:].strip())
                    if len(events) == TOKENS // 6:
                        disturb()
        self.assertEqual(events.pop(), "[DONE]", events[-1:])
        choices = [json.loads(event)["choices"][0] for event in events]
        return [(choice["text"], choice["logprobs"]["token_logprobs"] if choice["logprobs"] else None) for choice in choices]

    def ask_through(self, certificate, to="attic"):
        """What the relay's port answers to a step for the worker behind. Without a body: curl 7.88 loses an answer that comes before it has sent one."""
        curl = f"curl -sSk --http2 -X POST --max-time 20 https://{OFFICE}:{7101 + sorted(RELAYS).index(self.relay())}/chains/main/steps/1 -H 'longhaul-to: {to}' -w ' %{{http_code}}'"
        files = f"--cert {self.folder}/{certificate}.crt --key {self.folder}/{certificate}.key" if certificate else ""
        return self.home.run(f"{curl} {files}")

    def test_1_strangers_are_refused(self):
        self.assertEqual([worker for worker, _ in self.stages()], ["den", "attic"])
        self.assertIn(self.relay(), RELAYS)
        self.assertIn(f"through relay {self.relay()}", " ".join(self.home.run("longhaul-gateway status").stdout.split()))
        self.assertIn("unreachable", self.home.run(f"ip route get {BEHIND}").stderr)
        issue(self.folder, "cellar", "office")
        answer = self.ask_through("cellar").stdout
        self.assertIn("403", answer)
        self.assertIn("steps are for worker den, not for worker cellar behind the relay", answer)
        self.assertIn("relays for no", self.ask_through("den", to="den").stdout)
        self.assertNotEqual(self.ask_through(None).returncode, 0)

    def test_2_a_relay_is_killed_in_mid_stream(self):
        undisturbed = self.stream()
        first = self.relay()
        self.assertEqual(self.stream(self.programs[first].kill), undisturbed)
        self.assertEqual(self.stages()[1], ("attic", *RELAYS - {first}))
        # With the last relay goes the worker behind; the one at home has the memory for all, and the same numbers.
        self.assertEqual(self.stream(self.programs[self.relay()].kill), undisturbed)
        self.assertEqual(self.stages(), [("den", None)])
        attic = next(worker for worker in self.fleet()["workers"] if worker["name"] == "attic")
        self.assertIn("no worker of site office relays: start one there with --relay", attic["reason"])


if __name__ == "__main__":
    if not namespaces_work():
        print("skipped: no network namespaces can be made here (that needs root and iproute2)")
        sys.exit(SKIPPED)
    run_tests(sys.modules[__name__])
