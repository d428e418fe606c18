"""Workers of one site that compute each stage together: the text, the log probabilities and the logits' digests are those of one machine alone, on
any division; a member that is killed in mid-stream leaves the rest to go on with the same text, and one that comes back finds its place. Who is told
to leave, or comes, changes the teams by a planned handover: with the same text, and without the pause of a loss. Members fetch and keep their part of
the model alone, so that machines too small for it hold it together."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from fleet import Fleet
from gguf_keys import layer_count
from load import Load
from programs import build_folder, need_file, need_model, run_tests, slowness, wait_until
from stream import Stream
from tensors import stage_bytes
from test_hostile_peers import Crowd

PROMPT = "Once upon a time there was a lighthouse keeper who had four lamps, and each of them"
TOKENS = 48
GATEWAY = ["--wire", "f32", "--logits-digest", "--lease-ms", "1500" if slowness() == 1 else "6000", "--renew-ms", "100", "--plan-delay-ms", "200"]
# Where nobody is killed: nobody is to be taken for lost who is only slow.
PATIENT = [*GATEWAY, "--lease-ms", "20000"]
WORKER = ["--kv-bytes", "48M", "--site", "home", "--listen-members", "127.0.0.1:0"]


def stages(fleet):
    chains = fleet.fleet_state()["chains"]
    return [(stage["worker"], stage["members"]) for stage in chains[0]["stages"]] if chains else []


def answer(fleet, while_it_runs=None):
    """Text and drawn tokens with the digests of their logits."""
    stream = Stream(fleet.port, PROMPT, TOKENS, temperature=0.8, seed=11)
    stream.read(TOKENS // 6)
    if while_it_runs:
        while_it_runs()
    stream.finish()
    stream.connection.close()
    assert stream.is_done and not stream.error, stream.error
    return stream.text, fleet.drawn()


def fetched(worker):
    """(fetched, needed) of each stage that the worker has built, in bytes."""
    return [tuple(map(int, found)) for found in re.findall(r"weights are here .*fetched_bytes=(\d+) needed_bytes=(\d+)", worker.log_text())]


def disk_bytes(folder):
    return sum(os.stat(os.path.join(folder, name)).st_blocks * 512 for name in os.listdir(folder))


def playing(factor):
    """longhaul-worker as a machine that is so many times slower: what is then gained by another one does not hang on this machine's mood."""
    return [need_file(build_folder() / "longhaul-worker", "not built"), "--slowdown", str(factor)]


def random_model(folder, **shape):
    """A file of two layers, of tests/bench/random_model."""
    model = os.path.join(folder, "random.gguf")
    script = pathlib.Path(__file__).parents[1] / "bench" / "random_model"
    words = [word for name, value in shape.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    subprocess.run([sys.executable, script, model, "--layers", "2", "--type", "Q8_0", *words], check=True, stdout=subprocess.DEVNULL)
    return model


class TensorParallel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Fleet(1, gateway_flags=GATEWAY, worker_flags=WORKER) as fleet:
            cls.expected = answer(fleet)
        assert len(cls.expected[1]) == TOKENS

    def check(self, fleet, while_it_runs=None):
        text, drawn = answer(fleet, while_it_runs)
        self.assertEqual(text, self.expected[0])
        self.assertEqual(drawn, self.expected[1])

    def test_1_three_compute_one_stage(self):
        with Fleet(3, gateway_flags=[*PATIENT, "--tensor-parallel", "3"], worker_flags=WORKER) as fleet:
            self.assertEqual(stages(fleet), [("worker-1", ["worker-2", "worker-3"])])
            self.check(fleet)
            roles = {worker["name"]: worker["role"] for worker in fleet.fleet_state()["workers"]}
            self.assertEqual(set(roles.values()), {"stage"})

    def test_2_a_member_is_killed_in_mid_stream(self):
        """Two teams; then a team and one that is left alone; then two teams again."""
        with Fleet(4, gateway_flags=[*GATEWAY, "--tensor-parallel", "2"], worker_flags=WORKER) as fleet:
            self.assertEqual(stages(fleet), [("worker-1", ["worker-2"]), ("worker-3", ["worker-4"])])
            self.check(fleet)
            self.check(fleet, fleet.workers[3].kill)
            self.assertEqual(stages(fleet), [("worker-1", ["worker-2"]), ("worker-3", [])])
            self.check(fleet, fleet.workers[0].kill)
            self.assertEqual(stages(fleet), [("worker-2", ["worker-3"])])
            self.check(fleet)

    def leave(self, fleet, number, expected):
        """A worker is told to leave, and goes once a successor that was prepared has taken over."""
        fleet.workers[number].ask_to_stop()
        wait_until(lambda: not fleet.workers[number].is_running(), "the member has left")
        self.assertEqual(fleet.workers[number].stop(), 0)
        self.assertEqual(stages(fleet), expected)
        self.assert_handed_over(fleet, "a worker leaves")

    def assert_handed_over(self, fleet, cause, times=1):
        """By successors alone: nothing was lost, and nobody has built a stage but beside another one."""
        log = fleet.gateway.log_text()
        self.assertEqual(len(re.findall(f'the next chain takes over .*cause="{cause}"', log)), times)
        for unwanted in "chain is broken", "the next chain is given up", "chain is down":
            self.assertNotIn(unwanted, log)
        for worker in fleet.workers:
            self.assertNotIn("is broken", worker.log_text())

    def test_3_one_that_leaves_is_let_go(self):
        """The other one goes on alone; in mid-stream, and when nobody asks anything."""
        for while_it_runs in True, False:
            with Fleet(2, gateway_flags=[*PATIENT, "--tensor-parallel", "2"], worker_flags=WORKER) as fleet:
                def leave():
                    self.leave(fleet, 1, [("worker-1", [])])
                if not while_it_runs:
                    leave()
                self.check(fleet, leave if while_it_runs else None)

    def test_4_without_members_listeners_each_is_alone(self):
        alone = WORKER[:WORKER.index("--listen-members")]
        with Fleet(2, gateway_flags=[*PATIENT, "--tensor-parallel", "2"], worker_flags=alone) as fleet:
            self.assertEqual(stages(fleet), [("worker-1", []), ("worker-2", [])])
            self.check(fleet)

    def test_5_the_gateway_decides_by_itself(self):
        """Machines that take long for a layer gain by a network of which that is not true; a tiny model on fast ones does not."""
        flags = [*GATEWAY, "--objective", "tpot"]
        roomy = [*WORKER, "--kv-bytes", "512M"]  # for the usual context in all layers: else one alone has no room
        with Fleet(3, gateway_flags=flags, worker_flags=roomy, worker_programs={worker: playing(15) for worker in range(3)}) as fleet:
            plan = self.plan_of(fleet)
            self.assertEqual(stages(fleet), [("worker-1", ["worker-2", "worker-3"])], plan)
            self.assertIn("compute each layer together", plan)
            self.check(fleet)
        with tempfile.TemporaryDirectory(prefix="longhaul-tiny-") as folder:
            tiny = random_model(folder, width=64, heads=2, kv_heads=1, feed_forward=128)
            with Fleet(3, gateway_flags=flags, worker_flags=roomy, model=tiny) as fleet:
                plan = self.plan_of(fleet)
                self.assertEqual([members for _, members in stages(fleet)], [[]], plan)
                self.assertIn("they stay behind each other", plan)

    def plan_of(self, fleet):
        plan = subprocess.run([build_folder() / "longhaul-gateway", "plan", "--url", f"http://127.0.0.1:{fleet.port}"],
                              check=True, capture_output=True, text=True).stdout
        self.assertIn("home: a layer takes", plan)
        return plan

    def test_6_a_member_is_replaced_in_mid_stream(self):
        """First one that follows, then the one that leads: each of those that stay is in the present team and in the next one."""
        for leaver, expected in (1, [("worker-1", ["worker-3"])]), (0, [("worker-2", ["worker-3"])]):
            with Fleet(3, gateway_flags=[*PATIENT, "--tensor-parallel", "2"], worker_flags=WORKER) as fleet:
                self.assertEqual(stages(fleet), [("worker-1", ["worker-2"]), ("worker-3", [])])
                self.check(fleet, lambda: self.leave(fleet, leaver, expected))

    def test_7_a_newcomer_is_taken_into_a_team(self):
        """Two that are one behind the other become a team when there are enough; nobody's request is broken by it."""
        flags = [*PATIENT, "--tensor-parallel", "3", "--rebalance-delay-ms", "1500"]
        with Fleet(2, gateway_flags=flags, worker_flags=WORKER, worker_programs={0: playing(15), 1: playing(15)}) as fleet:
            self.assertEqual(stages(fleet), [("worker-1", []), ("worker-2", [])])
            fleet.start_worker(2)
            with Load(fleet, PROMPT, TOKENS, self.expected[0], temperature=0.8, seed=11) as load:
                wait_until(lambda: stages(fleet) == [("worker-1", ["worker-2", "worker-3"])] or load.problems, "the three compute together")
            self.assertEqual(load.problems, [])
            self.check(fleet)
            self.assert_handed_over(fleet, "it will be faster")

    def test_8_one_dies_while_the_next_team_is_prepared(self):
        """Of the next team, or of the present one."""
        for victim in 2, 0:
            with Fleet(3, gateway_flags=[*GATEWAY, "--tensor-parallel", "2"], worker_flags=WORKER) as fleet:
                def leave_and_die():
                    fleet.workers[1].ask_to_stop()
                    wait_until(lambda: "next chain planned" in fleet.gateway.log_text(), "a successor is planned")
                    fleet.workers[victim].kill()
                    wait_until(lambda: not fleet.workers[1].is_running(), "the member has left")
                self.check(fleet, leave_and_die)
                self.check(fleet)

    def test_9_all_members_are_replaced_under_load(self):
        """One after the other leaves and comes back, twice as fast; streams end with their text, all of them."""
        flags = [*PATIENT, "--tensor-parallel", "2", "--rebalance-delay-ms", "1000"]
        with Fleet(3, gateway_flags=flags, worker_flags=WORKER, worker_programs={worker: playing(8) for worker in range(3)}) as fleet:
            with Load(fleet, PROMPT, TOKENS, self.expected[0], temperature=0.8, seed=11) as load:
                for number in 0, 1, 2:
                    fleet.workers[number].ask_to_stop()
                    wait_until(lambda: not fleet.workers[number].is_running(), "it has left")
                    self.assertEqual(fleet.workers[number].stop(), 0)
                    fleet.worker_programs[number] = playing(4 >> number)
                    fleet.start_worker(number)
                    wait_until(lambda: len([s for s in stages(fleet) for _ in (s[0], *s[1])]) == 3 or load.problems, "all three compute again")
            self.assertEqual(load.problems, [])
            self.assertEqual(fleet.fleet_state()["queue"]["totals"]["failed"], 0)
            self.assertNotIn("chain is broken", fleet.gateway.log_text())
            print(f"    {load.answers} streams, longest pause {max(load.pauses) * 1000:.0f} ms")

    def test_a_members_hold_together_what_none_holds_alone(self):
        """Memory for a third of the layers and of the head, and for the embedding, which each has: the planner counts a tied head once more."""
        layers = layer_count(need_model())
        whole, header = stage_bytes(need_model(), 0, layers)
        first = stage_bytes(need_model(), 0, 1)[0]
        embedding = first - (stage_bytes(need_model(), 0, 2)[0] - first)
        divided = whole - embedding
        memory = embedding + (divided + embedding) // 2  # no machine is more than half as fast again as the others
        self.assertLess(memory, whole + embedding)
        equal = {worker: playing(15) for worker in range(3)}
        with Fleet(3, gateway_flags=[*PATIENT, "--tensor-parallel", "3"], worker_flags=[*WORKER, "--memory-bytes", str(memory)], worker_programs=equal,
                   fetches=True) as fleet:
            self.assertEqual(stages(fleet), [("worker-1", ["worker-2", "worker-3"])])
            self.check(fleet)
            total = 0
            for number, worker in enumerate(fleet.workers):
                (came, needed), = fetched(worker)
                total += needed
                self.assertLess(needed, embedding + 0.6 * divided)
                self.assertLess(came, 1.04 * needed + header)  # and digests, and what lies between parts that are close together
                self.assertLess(disk_bytes(fleet.cache_folder(number)), 1.06 * needed + header + (1 << 20))
            self.assertLess(total, 1.04 * (divided + 3 * embedding))

    def test_b_one_that_is_left_alone_fetches_the_rest(self):
        whole, header = stage_bytes(need_model(), 0, layer_count(need_model()))
        with Fleet(2, gateway_flags=[*GATEWAY, "--tensor-parallel", "2"], worker_flags=WORKER, fetches=True) as fleet:
            self.check(fleet)
            fleet.workers[1].kill()
            wait_until(lambda: stages(fleet) == [("worker-1", [])] and fleet.get("/health")[0] == 200, "the other goes on alone")
            self.check(fleet)
            (first_came, first_needed), (came, needed) = fetched(fleet.workers[0])
            self.assertEqual(needed, whole)
            self.assertLess(came, 1.04 * (whole - first_needed) + (1 << 20))
            self.assertLess(first_came + came, 1.05 * whole + header)

    def test_c_of_a_mixture_the_same_rows_of_every_expert_come(self):
        """Experts so large that what lies between a member's rows of two of them is not fetched along."""
        with tempfile.TemporaryDirectory(prefix="longhaul-mixture-") as folder:
            model = random_model(folder, width=512, heads=8, kv_heads=4, feed_forward=512, experts=8, experts_used=2)
            with Fleet(1, gateway_flags=GATEWAY, worker_flags=WORKER, model=model) as fleet:
                expected = answer(fleet)
            with Fleet(2, gateway_flags=[*GATEWAY, "--tensor-parallel", "2"], worker_flags=WORKER, model=model, fetches=True) as fleet:
                self.assertEqual(answer(fleet), expected)
                whole, header = stage_bytes(model, 0, 2)
                embedding = stage_bytes(model, 0, 1)[0] * 2 - stage_bytes(model, 0, 2)[0]  # and what the head has, where it is another one
                for worker in fleet.workers:
                    (came, needed), = fetched(worker)
                    self.assertLess(needed, whole - 0.2 * (whole - embedding))
                    self.assertLess(came, 1.02 * needed + header + (1 << 20))

    def test_d_strangers_at_the_ports_keep_no_member_out(self):
        """They are there before the team is, more than there are places, and come again when they are cut."""
        with Fleet(3, gateway_flags=[*GATEWAY, "--tensor-parallel", "2"], worker_flags=WORKER) as fleet, contextlib.ExitStack() as crowds:
            self.assertEqual(stages(fleet), [("worker-1", ["worker-2"]), ("worker-3", [])])
            for worker in fleet.workers:
                port = int(re.search(r"members=[\d.]+:(\d+)", worker.log_text()).group(1))
                crowds.enter_context(Crowd(port, 150, b"", from_many=False))
            self.check(fleet, fleet.workers[1].kill)
            self.assertEqual(stages(fleet), [("worker-1", ["worker-3"])])
            self.assertNotIn("a team does not form", fleet.gateway.log_text())
            self.assertLess(fleet.workers[0].log_text().count("a connection is refused"), 100)

    def test_e_members_that_do_not_meet_compute_alone(self):
        """One says that it is reached where nobody listens."""
        nowhere = [need_file(build_folder() / "longhaul-worker", "not built"), "--advertise-members", "127.0.0.1:9"]
        with Fleet(2, gateway_flags=[*PATIENT, "--tensor-parallel", "2"], worker_flags=WORKER, worker_programs={0: nowhere}) as fleet:
            self.assertEqual(stages(fleet), [("worker-1", []), ("worker-2", [])])
            self.check(fleet)
            self.assertIn("a team does not form: its members compute alone first=worker-1 members=2 for_s=10", fleet.gateway.log_text())


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=[f"TensorParallel.test_{name}" for name in (
        "2_a_member_is_killed_in_mid_stream", "7_a_newcomer_is_taken_into_a_team", "8_one_dies_while_the_next_team_is_prepared",
        "b_one_that_is_left_alone_fetches_the_rest")])
