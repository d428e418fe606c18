"""Workers that come to a fleet which serves, over TLS: nobody leaves for one who cannot be reached, and no request notices it. Who could not reach
whom, where and why is said on the gateway, on the worker before and in /fleet; one who can be reached is used without a request lost."""

import re
import sys
import unittest

from load import Load
from programs import free_port, memory_for_some_layers, run_tests, slowness, wait_until
from secure_fleet import HOME, SecureFleet

PROMPT = "Once upon a time there was a lighthouse keeper who"
TOKENS = 24
# Longer by no more than this while newcomers are tried and left alone. Where the machine is slow by itself, as under sanitizers: so many times that.
PAUSE_S = 0.2 * slowness()


class Newcomers(unittest.TestCase):
    def setUp(self):
        self.fleet = SecureFleet(2).__enter__()
        self.addCleanup(self.leave_fleet)
        self.load = self.enterContext(Load(self.fleet, PROMPT, TOKENS))
        self.usual_pause = self.load.since()

    def leave_fleet(self):
        failed = self._outcome.result.failures or self._outcome.result.errors
        self.fleet.__exit__(AssertionError if failed else None, None, None)

    def bring(self, name, **how):
        worker = self.fleet.start_named(name, **how)
        self.fleet.workers.append(worker)
        return worker

    def assert_left_alone(self, name, address, why):
        """That nobody changed places for it, and everybody who should says why."""
        epoch, members = self.fleet.chain()
        said = wait_until(lambda: re.search(rf'a worker is not used worker={name} for_s=10 reason="(.*)"', self.fleet.gateway.log_text()),
                          "the gateway says who is not used")[1]
        begin = len(self.load.pauses)
        self.assertRegex(said, rf"^(worker worker-[12]|the gateway) does not reach worker {name} at {re.escape(address)}: .*{why}")
        state = self.fleet.worker_state(name)
        self.assertEqual(state["role"], "spare")
        self.assertIn(said, state["reason"])
        self.assertRegex(state["reason"], r"tried again in \d+ s$")
        near = re.match(r"worker (worker-[12])", said)
        if near:
            log = next(worker for worker in self.fleet.workers if worker.name == near[1]).log_text()
            self.assertRegex(log, rf"a hop cannot be used next={name} address={re.escape(address)} reason=\".*{why}")
        self.load.since()
        self.assertEqual(self.fleet.chain(), (epoch, members))
        self.assertEqual(self.load.problems, [])
        pause = max(self.load.pauses[begin:])
        print(f"    {name}: {said}; longest pause {pause * 1000:.0f} ms, before {self.usual_pause * 1000:.0f} ms")
        self.assertLessEqual(pause, self.usual_pause + PAUSE_S)

    def test_an_address_where_nobody_listens(self):
        address = f"{HOME}:{free_port()}"
        workshop = self.bring("workshop", advertised=address)
        self.assert_left_alone("workshop", address, "refused")
        workshop.kill()
        self.bring("workshop")  # with its own address: it is not what it was, so it is used
        wait_until(lambda: "workshop" in self.fleet.chain()[1], "the chain goes over the workshop")
        wait_until(lambda: self.fleet.fleet_state()["state"] == "ready", "it is ready")
        self.load.since()
        self.assertEqual(self.load.problems, [])

    def test_an_address_where_somebody_else_listens(self):
        """It has a certificate of the fleet, and not the one that was meant."""
        address = self.fleet.worker_state("worker-1")["addresses"]["tls"]
        worker = self.bring("cellar", advertised=address)
        self.assert_left_alone("cellar", address, "worker cellar was expected and worker worker-1 of site site-of-worker-1 has answered")
        self.assertTrue(worker.is_running())

    def test_one_that_can_be_reached_is_used(self):
        self.bring("hall")
        wait_until(lambda: "hall" in self.fleet.chain()[1], "the chain goes over the hall")
        pause = self.load.since()
        self.assertEqual(self.load.problems, [])
        log = self.fleet.gateway.log_text()
        self.assertLess(log.index("the next chain's hops are proven"), log.index("the next chain takes over"))
        print(f"    a third worker took its share: longest pause {pause * 1000:.0f} ms")


class UnreadyFleet(SecureFleet):
    """Its worker holds half of the model, so that it waits for another one."""

    def __init__(self):
        super().__init__(1, worker_flags=["--memory-bytes", memory_for_some_layers()])

    def wait_ready(self):
        wait_until(lambda: self.worker_state("worker-1"), "its worker is there")


class FirstChain(unittest.TestCase):
    def test_the_reason_why_it_does_not_form_is_told_at_once(self):
        with UnreadyFleet() as fleet:
            address = f"{HOME}:{free_port()}"
            fleet.workers.append(fleet.start_named("workshop", advertised=address))
            expected = rf"worker worker-1 is not connected to workshop: {re.escape(address)}: .*refused"
            wait_until(lambda: re.search(rf'the chain waits for a hop .*reason="{expected}', fleet.gateway.log_text()), "the log says why")
            state = fleet.fleet_state()
            self.assertRegex(state["reason"], expected)
            self.assertRegex(state["chains"][0]["links"][1]["error"], rf"^{re.escape(address)}: .*refused")


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
