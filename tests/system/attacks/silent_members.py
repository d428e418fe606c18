"""A member of a team dies, and another one takes its place: they are to meet at ports where strangers hold connections and say nothing."""

import contextlib
import re
import resource

from bystanders import harm_of
from fleet import Fleet
from programs import wait_until
from test_hostile_peers import Crowd

WHAT = "strangers hold 300 silent connections at each port of members, while a team forms anew"
GATEWAY = ["--tensor-parallel", "2", "--lease-ms", "1500", "--plan-delay-ms", "200"]
WORKER = ["--kv-bytes", "48M", "--site", "home", "--listen-members", "127.0.0.1:0"]


def members_ports(fleet):
    return [int(re.findall(r"members=[\d.]+:(\d+)", worker.log_text())[-1]) for worker in fleet.workers]


def followers(fleet):
    return [member for chain in fleet.fleet_state()["chains"] for stage in chain["stages"] for member in stage["members"]]


def lose_a_member(fleet):
    def run(_):
        fleet.lost = int(followers(fleet)[0].rpartition("-")[2]) - 1
        fleet.workers[fleet.lost].kill()
    return run


def attack():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with Fleet(3, gateway_flags=GATEWAY, worker_flags=WORKER) as fleet:
        quiet = harm_of(fleet, 8, lose_a_member(fleet))
        fleet.workers[fleet.lost].log.close()
        fleet.start_worker(fleet.lost)
        wait_until(lambda: len(fleet.fleet_state()["workers"]) == 3 and followers(fleet), "it is back")
        with contextlib.ExitStack() as crowds:
            for port in members_ports(fleet):
                crowds.enter_context(Crowd(port, 300, b"", from_many=False))
            attacked = harm_of(fleet, 20, lose_a_member(fleet))
        return quiet, attacked
