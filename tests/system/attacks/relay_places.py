"""A worker behind a relay restarts, while another member holds as many trials open through that relay as it can, each on a connection of its own."""

import contextlib
import resource
import socket

from bystanders import harm_of
from fleet import Fleet
from programs import build_folder
from raw_http2 import PREFACE, SETTINGS, field, frame, post

WHAT = "a member holds trials open through a relay, on 200 connections, while the worker behind restarts"
WORKER = ["--site", "office"]


def open_trial(port):
    peer = socket.socket()
    peer.bind(("127.0.0.9", 0))
    peer.connect(("127.0.0.1", port))
    peer.sendall(PREFACE + frame(SETTINGS) + post(1, field("longhaul-to", "worker-1"), path="/chains/main/trials/576"))
    peer.setblocking(False)
    return peer


def is_over(peer):
    try:
        while peer.recv(4096):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def hold_trials(port, fleet):
    def run(over):
        with contextlib.ExitStack() as stack:
            peers = [stack.enter_context(open_trial(port)) for _ in range(200)]
            over.wait(2)
            restart(fleet)
            while not over.wait(0.2):
                for number, peer in enumerate(peers):
                    if is_over(peer):
                        peers[number] = stack.enter_context(open_trial(port))
    return run


def restart(fleet):
    fleet.workers[0].kill()
    fleet.workers[0].log.close()
    fleet.start_worker(0)


def attack():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    program = build_folder() / "longhaul-worker"
    programs = {0: [program, "--behind-relay"], 1: [program, "--relay", "--memory-bytes", "1M"]}
    with Fleet(2, gateway_flags=["--lease-ms", "1500", "--site", "home"], worker_flags=WORKER, worker_programs=programs) as fleet:
        addresses = next(worker for worker in fleet.fleet_state()["workers"] if worker["name"] == "worker-2")["addresses"]
        port = int(addresses["plain"].rpartition(":")[2])
        quiet = harm_of(fleet, 8, lambda over: (over.wait(2), restart(fleet)))
        attacked = harm_of(fleet, 20, hold_trials(port, fleet))
        return quiet, attacked
