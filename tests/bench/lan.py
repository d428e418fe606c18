"""Machines of one site: network namespaces on a switched LAN (veth and a bridge; the kernel's tbf on every port holds the rate). Linux, root, iproute2."""

import subprocess

import sites


class Lan(sites.Sites):
    """Machines on one switch; site 0 is the gateway's."""

    def __init__(self, count, rate_mbit):
        super().__init__(count, "")
        self.rate_mbit = rate_mbit
        self.switch = f"{self.names[0]}-switch"

    def __enter__(self):
        try:
            for name in [self.switch, *self.names]:
                sites._ip("netns", "add", name)
                self.made.append(name)
                sites._ip("-n", name, "link", "set", "lo", "up")
            sites._ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
            sites._ip("-n", self.switch, "link", "set", "bridge", "up")
            for site, name in enumerate(self.names):
                self.plug_in(site, name)
        except BaseException:
            self.close()
            raise
        return self

    def plug_in(self, site, name):
        port = f"port{site}"
        sites._ip("link", "add", "lan", "netns", name, "type", "veth", "peer", "name", port, "netns", self.switch)
        sites._ip("-n", self.switch, "link", "set", port, "master", "bridge", "up")
        sites._ip("-n", name, "addr", "add", f"{self.address(site)}/24", "dev", "lan")
        sites._ip("-n", name, "link", "set", "lan", "up")
        for inside, device in ((name, "lan"), (self.switch, port)):
            subprocess.run(["tc", "-n", inside, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{self.rate_mbit}mbit", "burst", "128kb",
                            "latency", "50ms"], check=True)
