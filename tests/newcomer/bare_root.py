"""A machine that has nothing: Debian's minimal system in a folder, entered with namespaces of its own, an address, and a way to the packages.

The first root of a suite is made by mmdebstrap and kept as a tar beside the checkout's other caches; each test unpacks it anew."""

import contextlib
import fcntl
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time

SUITES = {"12": "bookworm", "13": "trixie", "testing": "testing"}
# Its index is good for a week, and mirrors of some places are behind.
OPTIONS = {"testing": ('--aptopt=Acquire::Check-Valid-Until "false"',)}
# 198.18.0.0/15 is for tests (RFC 2544), so that no real network is hidden.
NETWORKS = "198.18"
OWN_AUTHORITIES = pathlib.Path("/usr/local/share/ca-certificates")
# A machine that is thrown away needs no disk that survives a loss of power; Debian's container images have the same.
HASTE = "force-unsafe-io\n"


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, **more)


RUNNING = set()


def stop_all(*_):
    """Whoever waits for one of them sees it end, and cleans up."""
    for machine in RUNNING:
        machine.init.kill()


class Overdue(RuntimeError):
    """Not done when its time was over."""


def left_until(deadline):
    """Seconds, or None where there is no deadline (time.monotonic())."""
    return None if deadline is None else max(deadline - time.monotonic(), 0.1)


def archive_of(suite, cache, deadline=None):
    """The path of the suite's minimal system as a tar, made where it is missing."""
    path = pathlib.Path(cache) / f"{suite}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.tar")
        try:
            run("mmdebstrap", "--quiet", "--variant=minbase", *OPTIONS.get(suite, ()), suite, partial, timeout=left_until(deadline))
        except subprocess.TimeoutExpired:
            raise Overdue(f"{suite}: no minimal system in time") from None
        partial.rename(path)
    return path


class Network:
    """with Network() as network: ...   A bridge of this machine through which roots reach the world, by address translation. Several of
    these are beside each other, in different programs: each has a number that it has locked."""

    def __enter__(self):
        signal.signal(signal.SIGTERM, stop_all)
        for self.number in range(256):
            self.lock = open(f"/run/lock/longhaul-newcomer-{self.number}", "w")
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            self.lock.close()
        else:
            raise RuntimeError("all networks for bare machines are in use")
        self.prefix, self.bridge, self.table = f"{NETWORKS}.{self.number}", f"lh-new-{self.number}", f"longhaul_newcomer_{self.number}"
        self.remove()
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "address", "add", f"{self.prefix}.1/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        rules = f"""table ip {self.table} {{
            chain out {{ type nat hook postrouting priority srcnat; ip saddr {self.prefix}.0/24 ip daddr != {self.prefix}.0/24 masquerade; }}
        }}"""
        run("nft", "-f", "-", input=rules, text=True)
        # A container engine's firewall drops what it does not know; these rules stand before its own.
        for direction in ("-i", "-o"):
            self.try_to("iptables", "-I", "FORWARD", direction, self.bridge, "-j", "ACCEPT")
        return self

    def __exit__(self, *_):
        self.remove()
        self.lock.close()

    def remove(self):
        """Also what a program that was killed has left."""
        self.try_to("ip", "link", "delete", self.bridge)
        self.try_to("nft", "delete", "table", "ip", self.table)
        for direction in ("-i", "-o"):
            self.try_to("iptables", "-D", "FORWARD", direction, self.bridge, "-j", "ACCEPT")

    @staticmethod
    def try_to(*words):
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class BareRoot:
    """with BareRoot("bookworm", cache, network, number=2) as root: root.run(...)

    number: the last part of its address, from 2 to 254; one machine each. What is started in it ends with it. After the deadline
    (time.monotonic()), if one is given, it is stopped, and who waits for it gets Overdue. name: what it calls itself. like: another one, whose
    disk it has a copy of. lent: folders of this machine -> where it finds them, to read and to write."""

    def __init__(self, suite, cache, network, number=2, deadline=None, name="home", like=None, lent=None):
        self.like, self.number, self.name, self.lent = like, number, name, lent or {}
        self.suite, self.cache, self.network, self.deadline = suite, pathlib.Path(cache), network, deadline
        self.address, self.namespace = f"{network.prefix}.{number}", f"lh-newcomer-{network.number}-{number}"
        self.link = f"lhn{network.number}-{number}"

    def __enter__(self):
        archive = None if self.like else archive_of(self.suite, self.cache, self.deadline)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"longhaul-newcomer-{self.suite}-", dir=self.cache))
        try:
            if self.like:
                run("cp", "-a", "--reflink=auto", f"{self.like.folder}/.", self.folder)
            else:
                run("tar", "-C", self.folder, "-xf", archive)
            self.give_ways()
            self.connect()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if hasattr(self, "init"):
            RUNNING.discard(self)
            self.init.stdin.close()
            self.init.wait()
        for words in (["ip", "netns", "delete", self.namespace], ["ip", "link", "delete", self.link]):
            subprocess.run(words, check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def give_ways(self):
        """What the network of this machine asks of everybody in it: resolvers, and authorities of its own."""
        shutil.copy("/etc/resolv.conf", self.folder / "etc/resolv.conf")
        (self.folder / "etc/hosts").write_text(f"127.0.0.1 localhost {self.name}\n")
        (self.folder / "etc/dpkg/dpkg.cfg.d/haste").write_text(HASTE)
        if OWN_AUTHORITIES.is_dir():
            shutil.copytree(OWN_AUTHORITIES, self.folder / OWN_AUTHORITIES.relative_to("/"), dirs_exist_ok=True)

    def connect(self):
        link, peer = self.link, f"{self.link}p"
        subprocess.run(["ip", "netns", "delete", self.namespace], check=False, stderr=subprocess.DEVNULL)
        run("ip", "netns", "add", self.namespace)
        run("ip", "link", "add", link, "type", "veth", "peer", "name", peer, "netns", self.namespace)
        run("ip", "link", "set", link, "master", self.network.bridge, "up")
        inside = ("ip", "-n", self.namespace)
        run(*inside, "address", "add", f"{self.address}/24", "dev", peer)
        run(*inside, "link", "set", peer, "up")
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "route", "add", "default", "via", f"{self.network.prefix}.1")

    def start(self):
        """Its first process, with which all others end; it waits until this one lets go of it."""
        lent = " && ".join(f"mount --bind {shlex.quote(str(ours))} {self.folder}{theirs}" for ours, theirs in self.lent.items()) or "true"
        for theirs in self.lent.values():
            (self.folder / theirs.lstrip("/")).mkdir(parents=True, exist_ok=True)
        mounts = f"""{lent} && mount -t proc proc {self.folder}/proc && mount -t sysfs sysfs {self.folder}/sys && mount --rbind /dev {self.folder}/dev &&
            mount -t tmpfs tmpfs {self.folder}/tmp && hostname {self.name} && echo ready && exec cat"""
        self.init = subprocess.Popen(["ip", "netns", "exec", self.namespace, "unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child",
                                      "--propagation", "private", "sh", "-c", mounts], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        RUNNING.add(self)
        if self.init.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{self.folder} cannot be entered: namespaces and mounts need root")
        children = pathlib.Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children").read_text().split()
        self.first = int(children[0])

    def command(self, text, user="root", folder="/root"):
        """The words that run a shell's text inside, after a login of its own: what one text has put into the user's ~/.local/bin the next one finds."""
        enter = ["nsenter", f"--target={self.first}", "--mount", "--pid", "--uts", "--ipc", "--net", "chroot", str(self.folder)]
        shell = f"cd {shlex.quote(folder)} && exec bash -leuo pipefail -c \"$0\""
        home = "/root" if user == "root" else f"/home/{user}"
        clean = ["env", "-i", f"HOME={home}", f"USER={user}", "LANG=C.UTF-8", "TERM=dumb",
                 "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        become = [] if user == "root" else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return [*enter, *clean, *become, "bash", "-c", shell, text]

    def run(self, text, user="root", folder="/root", timeout_s=1800, echo=None):
        """(exit status, what it printed). echo: is given each line as it comes. Overdue where it takes longer: then all of the machine is stopped."""
        process = subprocess.Popen(self.command(text, user, folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        timer = threading.Timer(min(timeout_s, left_until(self.deadline) or timeout_s), self.init.kill)
        timer.start()
        lines = []
        for line in process.stdout:
            lines.append(line.decode(errors="replace"))
            if echo:
                echo(lines[-1])
        status, is_overdue = process.wait(), not timer.is_alive()
        timer.cancel()
        if is_overdue:
            raise Overdue(f"{self.suite}: not done in time: {text}{''.join(lines)[-4000:]}")
        return status, "".join(lines)

    def add_user(self, name):
        """An ordinary user, who may become root by sudo, as an installer of Debian makes the first one."""
        status, said = self.run(f"apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends sudo >/dev/null 2>&1 && "
                                f"useradd --create-home --shell /bin/bash {name} && echo '{name} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/{name}")
        if status:
            raise RuntimeError(f"no user could be added: {said}")

    def cut_off(self):
        """From now on it reaches nobody but itself."""
        run("ip", "link", "set", self.link, "down")

    def unpack_commit(self, checkout, commit, folder, user="root"):
        """The committed tree alone, without anything that git ignores and without its history; where it is already, as it was."""
        target = self.folder / folder.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        tree = subprocess.Popen(["git", "-C", str(checkout), "archive", commit], stdout=subprocess.PIPE)
        run("tar", "-C", target, "-x", "--no-same-owner", stdin=tree.stdout)
        if tree.wait():
            raise RuntimeError(f"{checkout} has no commit {commit}")
        status, said = self.run(f"chown -R {user}: '{folder}'")
        if status:
            raise RuntimeError(said)
