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
# What Debian's installer adds to a minimal system: so that it starts by itself, and for users who may become root.
SERVICES = "systemd-sysv,dbus,sudo"
# 198.18.0.0/15 is for tests (RFC 2544), so that no real network is hidden.
NETWORKS = "198.18"
OWN_AUTHORITIES = pathlib.Path("/usr/local/share/ca-certificates")
# A machine that is thrown away needs no disk that survives a loss of power; Debian's container images have the same.
HASTE = "force-unsafe-io\n"


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, **more)


RUNNING = set()
STOPPED = threading.Event()


def stop_all(*_):
    """Whoever waits for one of them sees it end, and cleans up; none begins any more."""
    STOPPED.set()
    for machine in RUNNING:
        machine.init.kill()


class Overdue(RuntimeError):
    """Not done when its time was over."""


def left_until(deadline):
    """Seconds, or None where there is no deadline (time.monotonic())."""
    return None if deadline is None else max(deadline - time.monotonic(), 0.1)


def archive_of(suite, cache, deadline=None, has_services=False):
    """The path of the suite's minimal system as a tar, made where it is missing. has_services: with systemd in it."""
    path = pathlib.Path(cache) / (f"{suite}-services.tar" if has_services else f"{suite}.tar")
    more = [*OPTIONS.get(suite, ()), *([f"--include={SERVICES}"] if has_services else [])]
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.tar")
        try:
            run("mmdebstrap", "--quiet", "--variant=minbase", *more, suite, partial, timeout=left_until(deadline))
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


# The machine's first process becomes this: all that it sees is its folder ($0), which is the root of its mounts. Devices are those that a
# container has, and those of containers' engines; of the settings of the kernel, which are this machine's too, it may change the network's.
# $1: its name; $2: what it does first; $3: what is run then.
FIRST_PROCESS = r"""set -e
mount --bind "$0" "$0"
eval "$2"
cd "$0"
mount -t proc proc proc && mount -t sysfs sysfs sys
mount --bind proc/sys proc/sys && mount --bind proc/sys/net proc/sys/net && mount -o remount,bind,ro proc/sys
mount -t tmpfs -o mode=755 tmpfs dev && mkdir dev/pts dev/shm dev/net
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts && mount -t tmpfs tmpfs dev/shm
while read -r device major minor; do
    mknod -m 666 dev/"$device" c "$major" "$minor"
done <<'END'
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
fuse 10 229
net/tun 10 200
END
ln -s pts/ptmx dev/ptmx && ln -s /proc/self/fd dev/fd && ln -s fd/0 dev/stdin && ln -s fd/1 dev/stdout && ln -s fd/2 dev/stderr
mount -t tmpfs tmpfs tmp
hostname "$1"
pivot_root . mnt && umount -l /mnt
eval "$3"
"""
IDLE = "echo ready && exec cat"
# systemd wants its own part of the tree of control groups, and to be told that the machine's devices and clock are none of its business.
# What it mounts (credentials) services must see.
BOOT = """mount -t cgroup2 cgroup2 /sys/fs/cgroup && mount -t tmpfs -o mode=755 tmpfs /run && mount --make-rshared / && echo ready &&
    exec env -i container=bare PATH=/usr/sbin:/usr/bin:/sbin:/bin /sbin/init >/dev/null 2>&1"""
GROUPS = next((path for path in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup") if pathlib.Path(path, "cgroup.procs").exists()), None)
BOOT_S_MAX, GROUPS_S_MAX = 300, 10


class BareRoot:
    """with BareRoot("bookworm", cache, network, number=2) as root: root.run(...)

    number: the last part of its address, from 2 to 254; one machine each. What is started in it ends with it. After the deadline
    (time.monotonic()), if one is given, it is stopped, and who waits for it gets Overdue. name: what it calls itself. like: another one, whose
    disk it has a copy of. lent: folders of this machine -> where it finds them, to read and to write. has_services: systemd is its first process."""

    def __init__(self, suite, cache, network, number=2, deadline=None, name="home", like=None, lent=None,
                 has_services=False):
        self.like, self.number, self.name, self.lent, self.has_services = like, number, name, lent or {}, has_services
        self.suite, self.cache, self.network, self.deadline = suite, pathlib.Path(cache), network, deadline
        self.address, self.namespace = f"{network.prefix}.{number}", f"lh-newcomer-{network.number}-{number}"
        self.link = f"lhn{network.number}-{number}"

    def __enter__(self):
        if STOPPED.is_set():
            raise RuntimeError("stopped")
        archive = None if self.like else archive_of(self.suite, self.cache, self.deadline, self.has_services)
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
            if self.has_services:
                self.init.kill()
            self.init.wait()
            if self.has_services:
                self.remove_groups()
        for words in (["ip", "netns", "delete", self.namespace], ["ip", "link", "delete", self.link]):
            subprocess.run(words, check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def give_ways(self):
        """What the network of this machine asks of everybody in it: resolvers, and authorities of its own."""
        shutil.copy("/etc/resolv.conf", self.folder / "etc/resolv.conf")
        (self.folder / "etc/hostname").write_text(f"{self.name}\n")
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
        """Its first process, with which all others end; it waits until this one lets go of it, or is systemd, which is killed then."""
        lend = []
        for ours, theirs in self.lent.items():
            (self.folder / theirs.lstrip("/")).mkdir(parents=True, exist_ok=True)
            lend.append(f'mount --bind {shlex.quote(str(ours))} "$0"{shlex.quote(theirs)}')
        unshare = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child", "--propagation", "private"]
        first = ["sh", "-c", FIRST_PROCESS, self.folder, self.name, " && ".join(lend), BOOT if self.has_services else IDLE]
        self.init = subprocess.Popen(["ip", "netns", "exec", self.namespace, *unshare, *map(str, first)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     preexec_fn=self.enter_group if self.has_services else None)
        RUNNING.add(self)
        if self.init.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{self.folder} cannot be entered: namespaces and mounts need root")
        children = pathlib.Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children").read_text().split()
        self.first = int(children[0])
        if self.has_services:
            self.wait_for_services()

    @property
    def group(self):
        return pathlib.Path(GROUPS) / self.namespace

    def enter_group(self):
        self.group.mkdir(exist_ok=True)
        (self.group / "cgroup.procs").write_text("0")

    def wait_for_services(self):
        # Its status is not 0 where one service has failed, as one does that loads modules of the kernel.
        self.run("until [[ $(systemctl is-system-running 2>&1) =~ running|degraded ]]; do sleep 0.1; done", timeout_s=BOOT_S_MAX)

    def remove_groups(self):
        """Those of the machine's services, as soon as the last of its processes has gone."""
        until = time.monotonic() + GROUPS_S_MAX
        while self.group.exists() and time.monotonic() < until:
            for folder, _, _ in os.walk(self.group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            time.sleep(0.1)

    def command(self, text, user="root", folder="/root"):
        """The words that run a shell's text inside, after a login of its own: what one text has put into the user's ~/.local/bin the next one finds."""
        enter = ["nsenter", f"--target={self.first}", "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup"]
        shell = f"cd {shlex.quote(folder)} && exec bash -leuo pipefail -c \"$0\""
        home = "/root" if user == "root" else f"/home/{user}"
        clean = ["env", "-i", f"HOME={home}", f"USER={user}", "LANG=C.UTF-8", "TERM=dumb",
                 "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        become = [] if user == "root" else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return [*enter, *clean, *become, "bash", "-c", shell, text]

    def run(self, text, user="root", folder="/root", timeout_s=1800, echo=None, typed=None):
        """(exit status, what it printed). echo: is given each line as it comes. typed: what its user types. Overdue where it takes longer: then all of the machine is stopped."""
        process = subprocess.Popen(self.command(text, user, folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write((typed or "").encode())
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
