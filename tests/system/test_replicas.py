"""Two chains of one model: requests are shared between them, and when one of them loses a worker its streams go on with the other, replayed, with
the very text of an undisturbed run."""

import signal
import sys
import threading
import unittest

from fleet import Fleet
from programs import memory_for_some_layers, run_tests, slowness, wait_until
from stream import Stream

PROMPT = "Once upon a time there was a lighthouse keeper who"
TOKENS = 64
# Half of the model fits into a worker, the whole does not.
GATEWAY = ["--replicas", "2", "--renew-ms", "100", "--lease-ms", "1500" if slowness() == 1 else "5000", "--plan-delay-ms", "200"]
WORKER = ["--kv-bytes", "48M", "--memory-bytes", memory_for_some_layers()]


def texts(fleet, count, while_they_run=None):
    """Of so many streams at once; and their longest pauses."""
    streams = [Stream(fleet.port, PROMPT, TOKENS, temperature=1, seed=number) for number in range(count)]
    for stream in streams:
        stream.read(3)
    if while_they_run:
        while_they_run()
    threads = [threading.Thread(target=stream.finish) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream in streams:
        stream.connection.close()
        assert stream.is_done and not stream.error, stream.error
    return [stream.text for stream in streams], max(max(stream.gaps) for stream in streams)


class Replicas(unittest.TestCase):
    def test_two_chains_are_one_service(self):
        with Fleet(4, gateway_flags=GATEWAY, worker_flags=WORKER) as fleet:
            def are_ready():
                return [chain["state"] for chain in fleet.fleet_state()["chains"]] == ["ready", "ready"]

            wait_until(are_ready, "both chains are ready")
            chains = fleet.fleet_state()["chains"]
            self.assertEqual([chain["name"] for chain in chains], ["main", "main-2"])
            members = [[stage["worker"] for stage in chain["stages"]] for chain in chains]
            self.assertEqual(members, [["worker-1", "worker-2"], ["worker-3", "worker-4"]])
            expected, _ = texts(fleet, 4)
            state = fleet.fleet_state()
            shares = [chain["queue"]["totals"]["finished"] for chain in state["chains"]]
            self.assertEqual(sum(shares), 4)
            print(f"    shares of the chains: {shares}")
            self.assertEqual(state["queue"]["totals"]["finished"], 4)
            self.assertEqual(state["queue"]["sequences_max"], 64)

            found, pause = texts(fleet, 4, fleet.workers[3].kill)
            self.assertEqual(found, expected)
            print(f"    a worker killed, longest pause {pause * 1000:.0f} ms")
            self.assertEqual(fleet.get("/health")[0], 200)
            fleet.start_worker(3)
            wait_until(are_ready, "both chains are ready again")

            def leave():
                fleet.workers[0].process.send_signal(signal.SIGTERM)
                self.assertEqual(fleet.workers[0].wait(), 0)

            found, pause = texts(fleet, 4, leave)
            self.assertEqual(found, expected)
            print(f"    a worker asked to leave, longest pause {pause * 1000:.0f} ms")
            self.assertEqual(fleet.fleet_state()["queue"]["totals"]["failed"], 0)
            fleet.start_worker(0)
            wait_until(are_ready, "both chains are ready once more")


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
