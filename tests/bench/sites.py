"""Sites on one machine: network namespaces joined by longhaul-link. Linux, root, iproute2."""

import atexit
import contextlib
import ctypes
import itertools
import json
import os
import signal
import socket
import subprocess
import sys

PREFIX = "longhaul"
# As large as any link's rate times its round trip here, so that windows never limit.
BUFFER_BYTES = 64 << 20
# What is measured goes before whatever else the machine does, and niceness counts only within a session where the kernel groups by session.
FIRST = '[ ! -w /proc/self/autogroup ] || echo -15 2>/dev/null > /proc/self/autogroup; exec nice -n -15 "$@"'

_libc = ctypes.CDLL(None, use_errno=True)
_numbers = itertools.count(1)
CLONE_NEWNET = 0x40000000


def missing():
    """Why sites cannot be had on this machine; None: they can."""
    if os.geteuid() != 0:
        return "needs root"
    if not os.path.exists("/dev/net/tun"):
        return "needs /dev/net/tun"
    if subprocess.run(["ip", "netns"], capture_output=True).returncode:
        return "needs ip netns"
    return None


def _ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def first(arguments):
    """The command, before all others; to be started in a session of its own."""
    return ["sh", "-c", FIRST, "sh", *map(str, arguments)]


def pinned(cores):
    """What comes before a command, so that it runs on these cores alone; None: on any."""
    return ["taskset", "-c", ",".join(map(str, cores))] if cores else []


def watch_punctually():
    """This process, which takes the times, is on time; those that it starts are not affected."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def _end_well_when_told():
    """Told to stop, the program leaves nothing behind, as with Ctrl-C. Not where it has a way of its own, or in a thread."""
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))


class Sites:
    """with Sites(3, emulator) as sites: ...   Site i has sites.address(i). Leaving takes everything away again, also after Ctrl-C."""

    def __init__(self, count, emulator, congestion_control="cubic", sysctl=(), goes_first=True, emulator_cores=None):
        """congestion_control: of all connections between the sites, whatever they ask for; None: as the host and they will. goes_first: its
        programs go before all others on this machine. emulator_cores: those that the links run on; None: any."""
        self.count = count
        self.goes_first = goes_first
        self.emulator_command = [*pinned(emulator_cores), str(emulator), "sites"]
        self.names = [f"{PREFIX}-{os.getpid()}-{next(_numbers)}" for _ in range(count)]
        self.sysctl = {
            # A connection that has rested keeps its window.
            "ipv4/tcp_slow_start_after_idle": "0",
            "ipv4/tcp_no_metrics_save": "1",
            "ipv4/tcp_rmem": f"4096 131072 {BUFFER_BYTES}",
            "ipv4/tcp_wmem": f"4096 65536 {BUFFER_BYTES}",
            "ipv6/conf/all/disable_ipv6": "1",
            **dict(sysctl),
        }
        self.congestion_control = congestion_control
        self.emulator = None
        self.made = []
        self.processes = []

    def address(self, site):
        return f"10.201.0.{site + 1}"

    def __enter__(self):
        atexit.register(self.close)
        _end_well_when_told()
        try:
            for name in self.names:
                _ip("netns", "add", name)
                self.made.append(name)
                _ip("-n", name, "link", "set", "lo", "up")
            self.emulator = subprocess.Popen([*self.emulator_command, *self.names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            line = self.emulator.stdout.readline()
            if not line:
                raise RuntimeError("the link emulator does not start")
            self.is_realtime = json.loads(line)["realtime"]
            for site, name in enumerate(self.names):
                self._set_up(site, name)
        except BaseException:
            self.close()
            raise
        return self

    def _set_up(self, site, name):
        script = "".join(f"[ ! -e /proc/sys/net/{key} ] || echo '{value}' > /proc/sys/net/{key}\n" for key, value in self.sysctl.items())
        subprocess.run(["ip", "netns", "exec", name, "sh", "-ec", script], check=True)
        _ip("-n", name, "addr", "add", f"{self.address(site)}/24", "dev", "wan", "noprefixroute")
        # The queue is the emulator's; the device's own never drops.
        _ip("-n", name, "link", "set", "dev", "wan", "mtu", "1500", "txqueuelen", "20000", "up")
        # By route, since a namespace's sysctl takes only what the host allows to everybody.
        choice = ["congctl", self.congestion_control] if self.congestion_control else []
        _ip("-n", name, "route", "add", "10.201.0.0/24", "dev", "wan", "src", self.address(site), *choice)

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends our processes, by their ids, and removes our namespaces."""
        # Ctrl-C pressed again must not leave half of it behind.
        previous = None
        with contextlib.suppress(ValueError):
            previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for process in reversed(self.processes):
            end_process(process)
        self.processes = []
        if self.emulator:
            with contextlib.suppress(OSError):
                self.emulator.stdin.close()
            try:
                self.emulator.wait(5)
            except subprocess.TimeoutExpired:
                self.emulator.kill()
                self.emulator.wait()
            self.emulator.stdout.close()
            self.emulator = None
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        self.made = []
        atexit.unregister(self.close)
        if previous is not None:
            signal.signal(signal.SIGINT, previous)

    # ---- Lines

    def _ask(self, text):
        self.emulator.stdin.write(text + "\n")
        self.emulator.stdin.flush()
        line = self.emulator.stdout.readline()
        if not line:
            raise RuntimeError("the link emulator has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise ValueError(f"link emulator: {text}: {answer['error']}")
        return answer

    def set(self, source="*", target="*", **settings):
        """rate (Mbit/s), delay, jitter, queue (ms), loss (per cent) of the line from one site to another, or of all."""
        self._ask(f"set {source} {target} " + " ".join(f"{key}={value:g}" for key, value in settings.items()))

    def stall(self, source, target, ms):
        self._ask(f"stall {source} {target} {ms:g}")

    def flip(self, source, target, dice):
        """One bit of what the next TCP packet carries, its checksums made to fit; which bit: the number dice, counted around. 0: none after all."""
        self._ask(f"flip {source} {target} {dice}")

    def stats(self):
        return self._ask("stats")

    # ---- Programs and sockets

    def command(self, site, arguments, cores=None):
        words = [*pinned(cores), *map(str, arguments)]
        return ["ip", "netns", "exec", self.names[site], *(first(words) if self.goes_first else words)]

    def start(self, site, arguments, cores=None, **more):
        """A process in a site; ended with the sites at the latest."""
        process = subprocess.Popen(self.command(site, arguments, cores), start_new_session=True, **more)
        self.processes.append(process)
        return process

    @contextlib.contextmanager
    def inside(self, site):
        """Sockets that this thread opens meanwhile belong to the site, for as long as they live."""
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{self.names[site]}") as there:
            if _libc.setns(there.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                if _libc.setns(home.fileno(), CLONE_NEWNET):
                    os._exit(1)  # nothing that follows would be where it should

    def socket(self, site, kind=socket.SOCK_STREAM, protocol=0):
        with self.inside(site):
            return socket.socket(socket.AF_INET, kind, protocol)


def end_process(process, timeout=10):
    """Asks a process to end, then makes it; its exit status."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode
