"""`longhaul-gateway plan` on a file: what it says, in whatever order the file has it, and what it refuses."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from programs import build_folder, run_tests

FLEET = pathlib.Path(__file__).parents[1] / "gateway/cli/three_sites.json"


class PlanTest(unittest.TestCase):
    def plan(self, *flags, status=0):
        done = subprocess.run([build_folder() / "longhaul-gateway", "plan", *map(str, flags)], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "COLUMNS": "120"})
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def stages(self, page):
        """machine -> layers"""
        lines = page.split("\n\n")[0].splitlines()[2:]
        return {line.split()[0]: line.split()[2] for line in lines}

    def test_no_stage_has_more_layers_than_keys_and_values_have_room(self):
        fleet = json.loads(FLEET.read_text())
        fleet["model"]["kv"] = {"position_bytes": 8192, "heads": 8, "positions": 4096}
        for machine in fleet["machines"]:
            machine["kv_bytes"] = 12 * 4096 * 8192 if machine["name"] != "vm" else 4096 * 8192 - 1
            machine["cached"] = "0-31"
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(fleet, file)
            file.flush()
            page = self.plan("--fleet", file.name)
            roomy = self.plan("--fleet", file.name, "--context", 1024, "--sequences", 1)
            large = self.plan("--fleet", file.name, "--context", 65536)
        for run in self.stages(page).values():
            first, last = map(int, run.split("-"))
            self.assertLessEqual(last - first, 11)
        self.assertRegex(page, r"\n\w+ holds 12 layers with the keys and values of 4096 tokens: no more than these\n")
        self.assertIn("vm                  offers 32.0 MiB for keys and values, and those of 4096 tokens take 32.0 in a layer", page)
        self.assertRegex(page, r"to be sent +0 MiB of weights, [1-9]\d+ MiB to be loaded")
        self.assertTrue(any(int(run.split("-")[1]) - int(run.split("-")[0]) > 11 for run in self.stages(roomy).values()))
        self.assertIn("which are asked for", large)

    def test_stages_cover_the_model_and_everybody_else_has_a_reason(self):
        for objective in ("ttft", "tpot", "throughput"):
            with self.subTest(objective=objective):
                page = self.plan("--fleet", FLEET, "--objective", objective)
                stages = self.stages(page)
                layers = [layer for run in stages.values() for layer in range(int(run.split("-")[0]), int(run.split("-")[1]) + 1)]
                self.assertEqual(layers, list(range(32)))
                self.assertIn("the best there is", page)
                idle = page.split("without a stage:\n")[1].splitlines()
                self.assertEqual(set(stages) | {line.split()[0] for line in idle}, {"desk", "laptop", "old", "rack1", "rack2", "vm"})
                self.assertIn("offers 95 MiB, and a layer takes 130", page)

    def test_the_order_of_the_file_changes_nothing(self):
        fleet, page = json.loads(FLEET.read_text()), self.plan("--fleet", FLEET).split("without a stage")[0]
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(5):
                for part in ("sites", "links", "machines"):
                    random.Random(seed).shuffle(fleet[part])
                path = pathlib.Path(folder, "shuffled.json")
                path.write_text(json.dumps(fleet))
                self.assertEqual(self.plan("--fleet", path).split("without a stage")[0], page)

    def test_pins_and_those_left_out(self):
        page = self.plan("--fleet", FLEET, "--pin", "laptop=0-5", "--without", "rack1,vm")
        self.assertEqual(self.stages(page)["laptop"], "0-5")
        self.assertRegex(page, r"rack1 +is left out by --without")
        self.assertRegex(page, r"laptop +home +0-5 +1117 +0 ")  # it holds them

    def test_another_file_adds_machines(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "more.json")
            path.write_text(json.dumps({"machines": [{"name": "new", "site": "home", "memory_bytes": 8 << 30,
                                                      "speed": {"prompt_us": 1, "token_us": 4}}]}))
            self.assertEqual(self.stages(self.plan("--fleet", FLEET, "--with", path)), {"new": "0-31"})

    def test_several_chains_share_the_machines(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "more.json")
            path.write_text(json.dumps({"machines": [{"name": "twin", "site": "cloud", "memory_bytes": 4000000000, "count": 2,
                                                      "speed": {"prompt_us": 8, "token_us": 45}}]}))
            page = self.plan("--fleet", FLEET, "--with", path, "--replicas", 2, "--objective", "throughput")
        chains = [self.stages(chain) for chain in page.split("chain ")[1:] for chain in [chain.split("\n\n", 1)[1]]]
        self.assertEqual(len(chains), 2)
        self.assertIn("offers 95 MiB, and a layer takes 130", page)
        self.assertEqual(set(chains[0]) & set(chains[1]), set())
        for stages in chains:
            self.assertEqual([int(run.split("-")[0]) for run in stages.values()][0], 0)
            self.assertEqual([int(run.split("-")[1]) for run in stages.values()][-1], 31)

    def test_refusals(self):
        self.assertIn("pins are for one chain", self.plan("--fleet", FLEET, "--pin", "desk=0-1", "--replicas", 2, status=1))
        self.assertIn("no machine is called \"nobody\"", self.plan("--fleet", FLEET, "--without", "nobody", status=1))
        self.assertIn("layers of 0-31", self.plan("--fleet", FLEET, "--pin", "desk=0-32", status=1))
        self.assertIn("No such file", self.plan("--fleet", "/nowhere.json", status=1))
        self.assertIn("no plan was found", self.plan("--fleet", FLEET, "--without", "vm,rack1,rack2", status=1))
        self.assertIn("time per token", self.plan("--fleet", FLEET, "--objective", "throughput", "--token-ms-max", 5, status=1))
        self.assertIn("cannot be asked", self.plan("--url", "http://127.0.0.1:9", status=1))
        self.assertIn("--save goes without --fleet", self.plan("--fleet", FLEET, "--save", "/dev/null", status=1))
        self.assertIn("takes no --fleet", self.plan("verify", "--fleet", FLEET, status=1))


if __name__ == "__main__":
    run_tests(sys.modules["__main__"])
