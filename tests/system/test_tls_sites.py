"""Two machines: the very commands of docs/OPERATING.md, tokens or certificates and all, in two network namespaces that stand for them. Over
TLS 1.3 with client certificates a chat completion comes out; whoever has no certificate of the fleet's authority, or another's name on it,
stays outside and finds out why."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from programs import IS_QUICK, SKIPPED, Program, build_folder, need_model, run_tests, wait_until

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "OPERATING.md"
HOME_ADDRESS, OFFICE_ADDRESS = "192.0.2.1", "198.51.100.7"
# Streams wait for as long as a sanitizer's build may need to load the other site's layers.
PATIENCE = " --replay-timeout-ms 60000"
TOKENS = 24 if IS_QUICK else 96


def run(*command, check=True, **more):
    return subprocess.run([str(word) for word in command], check=check, capture_output=True, text=True, **more)


# ---- The guide ------------------------------------------------------------------------------------------------------------------


def guide_block(word, title="Your own CA"):
    """The indented block of the section that holds the word."""
    section = GUIDE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+", section, re.M)
    return "\n".join(line[4:] for line in next(block for block in blocks if word in block).splitlines())


def guide_commands(word="longhaul-worker", **more):
    """{address: [command, ...]} of the block that starts the programs."""
    commands, address = {}, None
    for line in guide_block(word, **more).replace("\\\n", " ").splitlines():
        if line.startswith("# "):
            address = line[2:].strip()
            commands[address] = []
        elif line.strip():
            commands[address].append(" ".join(line.split()))
    return commands


# ---- Machines --------------------------------------------------------------------------------------------------------------------


class Machine:
    """A network namespace with one address, and a folder that is its disk."""

    def __init__(self, name, address, folder):
        self.name, self.address, self.folder = f"lh{os.getpid()}-{name}", address, pathlib.Path(folder) / name
        self.folder.mkdir()
        run("ip", "netns", "add", self.name)
        run("ip", "-n", self.name, "link", "set", "lo", "up")

    def command(self, text):
        search = f"{build_folder()}:{os.environ['PATH']}"
        shell = f"cd {self.folder} && exec {text}"
        return ["ip", "netns", "exec", self.name, "env", f"HOME={self.folder}", "XDG_CACHE_HOME=", f"PATH={search}", "bash", "-c", shell]

    def start(self, name, text):
        return Program(name, self.command(text), self.folder)

    def run(self, text, **more):
        return run(*self.command(text), check=False, **more)

    def get(self, path, body=None):
        data = f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'" if body else ""
        return self.run(f"curl -sS --max-time 300 http://127.0.0.1:8080{path} {data}").stdout

    def remove(self):
        run("ip", "netns", "del", self.name, check=False)


def join(one, other):
    """A cable between two machines."""
    run("ip", "-n", one.name, "link", "add", "wan", "type", "veth", "peer", "name", "wan", "netns", other.name)
    for machine, peer in ((one, other), (other, one)):
        run("ip", "-n", machine.name, "address", "add", f"{machine.address}/32", "dev", "wan")
        run("ip", "-n", machine.name, "link", "set", "wan", "up")
        run("ip", "-n", machine.name, "route", "add", peer.address, "dev", "wan")


def cut(one, other):
    """The cable between them; `one` does not even learn of it."""
    run("ip", "-n", other.name, "link", "set", "wan", "down")


def heal(one, other):
    run("ip", "-n", other.name, "link", "set", "wan", "up")
    run("ip", "-n", other.name, "route", "replace", one.address, "dev", "wan")


def make_certificates(folder):
    run("bash", "-e", "-c", guide_block("openssl"), cwd=folder)


def give(machine, certificates, *names):
    for name in ("ca", *names):
        for ending in ("crt", "key") if name != "ca" else ("crt",):
            shutil.copy(certificates / f"{name}.{ending}", machine.folder)


class TwoMachines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(cls.tidy)
        cls.machines, cls.programs = [], []
        cls.temporary = tempfile.TemporaryDirectory(prefix="longhaul-sites-")
        folder = pathlib.Path(cls.temporary.name)
        cls.certificates, cls.others = folder / "certificates", folder / "other-certificates"
        for certificates in (cls.certificates, cls.others):
            certificates.mkdir()
            make_certificates(certificates)
        for name, address in (("home", HOME_ADDRESS), ("office", OFFICE_ADDRESS)):
            cls.machines.append(Machine(name, address, folder))
        cls.home, cls.office = cls.machines
        join(cls.home, cls.office)
        give(cls.home, cls.certificates, "gateway", "home")
        give(cls.office, cls.certificates, "office")
        (cls.home.folder / "model.gguf").symlink_to(need_model())
        cls.commands = guide_commands()
        cls.commands[HOME_ADDRESS][0] += PATIENCE
        for machine in cls.machines:
            for command in cls.commands[machine.address]:
                cls.programs.append(machine.start(command.split()[0] + "-" + str(len(cls.programs)), command))
        cls.wait_ready()

    @classmethod
    def wait_ready(cls):
        try:
            wait_until(lambda: '"ok"' in cls.home.get("/health"), "the chain is ready")
        except BaseException:
            cls.print_logs()
            raise

    @classmethod
    def tidy(cls):
        badly = [program.log_text()[-4000:] for program in cls.programs if program.stop() != 0]
        for machine in cls.machines:
            machine.remove()
        cls.temporary.cleanup()
        assert not badly, "\n".join(badly)

    @classmethod
    def print_logs(cls):
        for program in cls.programs:
            print(f"---- {program.name}\n{program.log_text()[-4000:]}")

    # ---- Inside

    def test_a_chat_completion(self):
        body = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 8, "temperature": 0}
        answer = json.loads(self.home.get("/v1/chat/completions", body))
        self.assertTrue(answer["choices"][0]["message"]["content"].strip())
        self.assertEqual(answer["usage"]["completion_tokens"], 8)
        stages = self.fleet()["chains"][0]["stages"]
        self.assertEqual([(stage["site"], stage["tls"]) for stage in stages], [("home", True), ("office", True)])
        self.assertEqual(stages[1]["address"], f"{OFFICE_ADDRESS}:7101")

    def test_the_weights_are_in_the_default_cache(self):
        for machine in self.machines:
            self.assertTrue(list((machine.folder / ".cache" / "longhaul").glob("*")), machine.name)

    def test_links_are_surveyed_over_tls(self):
        """Also from the office's worker to that at home, which the chain never connects."""
        for worker in self.fleet()["workers"]:
            name, address = re.escape(worker["name"]), re.escape(worker["addresses"]["tls"])
            to = rf"a link is surveyed to={name} address={address} .* probe_bytes=[1-9]"
            wait_until(lambda: any(re.search(to, program.log_text()) for program in self.programs), f"somebody says {to}")

        # A survey is in the matrix with its worker's next report; it may have been one to the gateway, which has no worker beside it.
        def directions():
            return {(link["from"], link["to"]) for link in self.fleet()["matrix"] if link["bytes_per_us"]}

        wait_until(lambda: {("home", "office"), ("office", "home")} <= directions(), "both directions are known")

    # ---- The cable

    def test_a_cut_cable(self):
        """Nobody is told, nothing is closed: silence alone. The stream goes on at home; the office comes back when the cable does."""
        self.addCleanup(self.start_over)
        undisturbed, _ = self.stream()
        text, pause = self.stream(lambda: cut(self.home, self.office))
        self.assertEqual(text, undisturbed)
        print(f"    cable cut, longest pause of the stream: {pause * 1000:.0f} ms")
        # On a busy machine the stream may have been through when the cable was cut: then the lease tells.
        wait_until(lambda: [stage["site"] for stage in self.fleet()["chains"][0]["stages"]] == ["home"], "the chain is at home alone")
        wait_until(lambda: len(self.fleet()["workers"]) == 1, "the office's lease ends")
        heal(self.home, self.office)
        wait_until(lambda: len(self.fleet()["workers"]) == 2, "the office is back")

    def stream(self, disturb=lambda: None):
        """The text of a streamed completion, and its longest pause; `disturb` is called when the first tokens are there."""
        body = json.dumps({"prompt": "Once upon a time", "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "stream": True})
        curl = f"curl -sSN --max-time 120 http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' -d '{body}'"
        events, pause = [], 0
        with subprocess.Popen(self.home.command(curl), stdout=subprocess.PIPE, text=True) as client:
            last = time.monotonic()
            for line in client.stdout:
                pause, last = max(pause, time.monotonic() - last), time.monotonic()
                events += [line[6:].strip()] if line.startswith("data: ") else []
                if len(events) == TOKENS // 8 and line.startswith("data: "):
                    disturb()
        self.assertEqual(events.pop(), "[DONE]")
        return "".join(json.loads(event)["choices"][0]["text"] for event in events), pause

    def start_over(self):
        """The chain over both sites again: a worker that has come back is a spare until the gateway plans anew."""
        heal(self.home, self.office)
        gateway = self.programs[0]
        self.assertEqual(gateway.stop(), 0, gateway.log_text()[-4000:])
        self.programs[0] = self.home.start(gateway.name, self.commands[HOME_ADDRESS][0])
        self.wait_ready()

    def fleet(self):
        return json.loads(self.home.get("/fleet"))

    # ---- Outside

    def refused(self, machine, name, command, words, gateway_says=""):
        """Starts a worker that must not get in; its log must say one of the words, and the gateway's in the end: so many lines that strangers
        cause are written in a minute, and it tries on."""
        before = len(self.programs[0].log_text())
        worker = machine.start(name, command)
        try:
            wait_until(lambda: re.search(words, worker.log_text()) or not worker.is_running(), f"the log says {words}")
            self.assertRegex(worker.log_text(), words)
            self.assertNotIn(name, [known["name"] for known in self.fleet()["workers"]])
            wait_until(lambda: re.search(gateway_says, self.programs[0].log_text()[before:]), f"the gateway says {gateway_says}")
        except BaseException:
            print(worker.log_text(), self.programs[0].log_text()[before:], sep="----\n")
            raise
        finally:
            worker.stop()

    def worker(self, certificate, gateway=f"https://{HOME_ADDRESS}:7100", ca="ca.crt"):
        tls = f"--tls-cert {certificate}.crt --tls-key {certificate}.key --tls-ca {ca}"
        return f"longhaul-worker --gateway {gateway} --listen-tls {OFFICE_ADDRESS}:0 {tls}"

    def test_another_authority(self):
        for ending in ("crt", "key"):
            shutil.copy(self.others / f"office.{ending}", self.office.folder / f"stranger.{ending}")
        self.refused(self.office, "stranger", self.worker("stranger"), "unknown ca", "warn .*certificate")

    def test_a_gateway_of_another_authority(self):
        shutil.copy(self.others / "ca.crt", self.office.folder / "other-ca.crt")
        self.refused(self.office, "doubter", self.worker("office", ca="other-ca.crt"), "certificate")

    def test_another_name(self):
        for flag in ("--name", "--site"):
            self.refused(self.office, f"impostor{flag}", f"{self.worker('office')} {flag} home", f"{flag}: 'home' is not what the certificate .* is 'office'")

    def test_without_tls(self):
        command = (
            f"longhaul-worker --name naked --site elsewhere --gateway http://{HOME_ADDRESS}:7100 "
            f"--listen {OFFICE_ADDRESS}:0 --insecure-plaintext"
        )
        self.refused(self.office, "naked", command, "no answer of the gateway.*takes TLS, --gateway begins with https://", "warn .*TLS")

    def test_tls_where_there_is_none(self):
        gateway = self.home.start("plain", "longhaul-gateway --model model.gguf --listen 127.0.0.1:8081 --fleet-listen 127.0.0.1:7300")
        try:
            wait_until(lambda: "listening" in gateway.log_text(), "it listens")
            command = self.worker("home", "https://127.0.0.1:7300").replace(OFFICE_ADDRESS, HOME_ADDRESS)
            self.refused(self.home, "hopeful", command, "no answer of the gateway.*without TLS")
        finally:
            gateway.stop()

    def test_a_step_from_outside(self):
        """Nobody without a certificate gets as far as HTTP on a worker's port, or the gateway's."""
        for machine, address in ((self.home, f"{OFFICE_ADDRESS}:7101"), (self.office, f"{HOME_ADDRESS}:7100")):
            for flags in ("", "--cert stranger.crt --key stranger.key"):
                for ending in ("crt", "key"):
                    shutil.copy(self.others / f"office.{ending}", machine.folder / f"stranger.{ending}")
                asked = machine.run(f"curl -sS --insecure --max-time 60 --http2 {flags} https://{address}/fleet")
                self.assertNotEqual(asked.returncode, 0, asked.stdout)
                self.assertRegex(asked.stderr, "alert")
            asked = machine.run(f"curl -sS --max-time 5 --http2-prior-knowledge http://{address}/fleet")
            self.assertNotEqual(asked.returncode, 0, asked.stdout)

    # ---- What is not encrypted must be asked for

    def test_plaintext_beyond_loopback_needs_a_word(self):
        for command, words in (
            (f"longhaul-worker --listen {HOME_ADDRESS}:7201", "--listen: .*--insecure-plaintext"),
            (f"longhaul-worker --gateway http://{HOME_ADDRESS}:7100", "--gateway: .*--insecure-plaintext"),
            (f"longhaul-worker --listen-tls {HOME_ADDRESS}:7201", "--listen-tls needs --tls-cert"),
            ("longhaul-gateway --model model.gguf --tls-cert gateway.crt", "--tls-cert, --tls-key and --tls-ca"),
        ):
            with self.subTest(command=command):
                ended = self.home.run(command)
                self.assertIn(ended.returncode, (1, 2))
                self.assertRegex(ended.stderr, words)
                self.assertEqual(len(ended.stderr.strip().splitlines()), 1, ended.stderr)


class JoinedMachines(unittest.TestCase):
    """The same two by tokens: no openssl, no file is copied."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="longhaul-sites-")
        self.addCleanup(temporary.cleanup)
        self.machines = {name: Machine(name, address, temporary.name) for name, address in (("home", HOME_ADDRESS), ("office", OFFICE_ADDRESS))}
        for machine in self.machines.values():
            self.addCleanup(machine.remove)
        self.home = self.machines["home"]
        join(*self.machines.values())
        (self.home.folder / "model.gguf").symlink_to(need_model())

    def start(self, machine, name, command):
        """Both machines have one disk here, so each says where its state is."""
        program = machine.start(name, f"{command} --state-dir {name}-state")
        self.addCleanup(lambda: self.assertEqual(program.stop(), 0, program.log_text()[-4000:]))
        return program

    def test_the_guide_makes_a_fleet(self):
        gateway, *tokens = guide_commands("longhaul-gateway token", title="Two real machines")[HOME_ADDRESS]
        running = self.start(self.home, "gateway", gateway)
        wait_until(lambda: "fleet_port=" in running.log_text(), "the gateway listens")
        workers = []
        for command in tokens:
            line = self.home.run(f"{command} --state-dir gateway-state").stdout.strip()
            self.assertRegex(line, rf"^longhaul-worker join https://{HOME_ADDRESS}:7100 lh1\.")
            site = command.split()[-1]
            workers.append(self.start(self.machines[site], f"worker-{site}", f"{line} --name {site}"))
        wait_until(lambda: '"ok"' in self.home.get("/health"), "the chain is ready")
        stages = json.loads(self.home.get("/fleet"))["chains"][0]["stages"]
        self.assertEqual([(stage["site"], stage["tls"]) for stage in stages], [("home", True), ("office", True)])
        self.assertEqual(stages[1]["address"], f"{OFFICE_ADDRESS}:7101")
        for worker in workers:
            self.assertIn("the gateway reaches this worker", worker.log_text())
        body = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 8, "temperature": 0}
        self.assertEqual(json.loads(self.home.get("/v1/chat/completions", body))["usage"]["completion_tokens"], 8)


def namespaces_work():
    name = f"lh{os.getpid()}-probe"
    try:
        return run("ip", "netns", "add", name, check=False).returncode == 0
    except FileNotFoundError:
        return False
    finally:
        if shutil.which("ip"):
            run("ip", "netns", "del", name, check=False)


if __name__ == "__main__":
    if not namespaces_work():
        print("skipped: no network namespaces can be made here (that needs root and iproute2)")
        sys.exit(SKIPPED)
    run_tests(sys.modules[__name__])
