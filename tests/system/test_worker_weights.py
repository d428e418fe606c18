"""What a worker fetches, keeps and holds: the tensors of its layers and no others, once; damage is found; a cache that cannot be written
is told in /fleet; memory stays near the weights' bytes and the pages in use."""

import os
import pathlib
import re
import sys
import unittest

from fleet import Fleet
from gguf_keys import layer_count
from programs import is_sanitized, need_model, run_tests, wait_until
from raw_http import ask
from tensors import stage_bytes

# Thread stacks, libraries' heaps, rows on their way.
MEMORY_BESIDES = 64 << 20


def complete(fleet, prompt="Once upon a time", tokens=8):
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    reply = ask(fleet.port, "POST", "/v1/completions", body)
    assert reply.status == 200, reply.body
    return reply.json()


def fetched(log):
    """(fetched, needed) of the last stage that was built."""
    line = [line for line in log.splitlines() if "weights are here" in line][-1]
    return tuple(int(line.split(f" {key}=")[1].split()[0]) for key in ("fetched_bytes", "needed_bytes"))


def resident_bytes(program):
    line = next(line for line in open(f"/proc/{program.pid}/status") if line.startswith("RssAnon"))
    return int(line.split()[1]) << 10


class Weights(unittest.TestCase):
    """One fleet whose workers hold half of the model each and no layer more, however fast they are measured to be; each test leaves it whole."""

    @classmethod
    def setUpClass(cls):
        flags = ["--renew-ms", "100", "--lease-ms", "1500", "--plan-delay-ms", "200"]
        layers = layer_count(need_model())
        memory = stage_bytes(need_model(), 0, layers // 2)[0] + (1 << 20)
        cls.fleet = Fleet(2, gateway_flags=flags, worker_flags=["--kv-bytes", "128M", "--memory-bytes", str(memory)], fetches=True).__enter__()
        assert cls.stages(cls) == [(0, layers // 2), (layers // 2, layers)], cls.stages(cls)
        cls.expected = complete(cls.fleet)["choices"]

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    def stages(self):
        return [(stage["first_layer"], stage["last_layer"]) for stage in self.fleet.fleet_state()["chains"][0]["stages"]]

    def cache_files(self, number):
        return sorted(pathlib.Path(self.fleet.cache_folder(number)).iterdir())

    def restart(self, number):
        """The worker's log since then."""
        worker = self.fleet.workers[number]
        worker.kill()
        before = len(worker.log_text())
        self.fleet.start_worker(number)
        wait_until(lambda: "ready chain=main" in worker.log_text()[before:], "it holds its stage again")
        self.fleet.wait_ready()
        self.assertEqual(complete(self.fleet)["choices"], self.expected)
        return worker.log_text()[before:]

    def test_a_worker_fetches_its_own_layers_alone(self):
        for number, (first, last) in enumerate(self.stages()):
            own, header = stage_bytes(self.fleet.model, first, last)
            files = self.cache_files(number)
            lists = [file for file in files if re.fullmatch("layers-[0-9a-f]{64}", file.name)]
            tensors = [file for file in files if file not in lists]
            self.assertEqual(len(lists), 1)
            self.assertEqual(sum(file.stat().st_size for file in tensors), own + header)
            for file in tensors:
                self.assertEqual(len(file.name), 64, file)

    def test_a_second_start_fetches_nothing(self):
        for number in range(2):
            self.assertEqual(fetched(self.restart(number))[0], 0)

    def test_damage_is_found_and_fetched_again(self):
        files = self.cache_files(0)
        damaged, cut, lost = sorted(files, key=lambda file: file.stat().st_size)[-3:]
        sizes = sum(file.stat().st_size for file in (damaged, cut, lost))
        with open(damaged, "r+b") as file:
            file.seek(damaged.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        os.truncate(cut, cut.stat().st_size // 2)
        lost.unlink()
        log = self.restart(0)
        self.assertEqual(log.count("removed a damaged file of the cache"), 2)
        self.assertEqual(fetched(log)[0], sizes)
        self.assertEqual(self.cache_files(0), files)

    @unittest.skipIf(is_sanitized(), "a sanitizer's memory is not the program's")
    def test_memory_is_weights_and_pages_in_use(self):
        at_rest = [resident_bytes(worker) for worker in self.fleet.workers]
        usage = complete(self.fleet, "word " * 500, 500)["usage"]
        self.assertGreaterEqual(usage["total_tokens"], 1000)
        for number, worker in enumerate(self.fleet.fleet_state()["workers"]):
            weights, kv = worker["assignment"]["total_bytes"], worker["kv"]
            pages = -(-usage["total_tokens"] // kv["page_positions"])
            used = resident_bytes(self.fleet.workers[number])
            limit = weights + pages * kv["page_bytes"] + MEMORY_BESIDES
            print(f"    {worker['name']}: {used >> 20} MiB after 1,000 tokens ({at_rest[number] >> 20} before), limit {limit >> 20}")
            self.assertLessEqual(used, limit)
            self.assertLessEqual(at_rest[number], weights + MEMORY_BESIDES)


class NoCache(unittest.TestCase):
    def test_a_cache_that_cannot_be_written(self):
        """/sys/kernel is a folder in which nobody makes files, not even root."""
        fleet = FleetWithout("/sys/kernel", gateway_flags=["--renew-ms", "100", "--lease-ms", "1500"])
        with fleet:
            worker = wait_until(fleet.failed_worker, "the worker says that it failed")
            self.assertIn("/sys/kernel", worker["assignment"]["error"])
            self.assertIn("making a file", worker["assignment"]["error"])
            self.assertTrue(fleet.workers[0].is_running())
            status, text = fleet.get("/health")
            self.assertEqual(status, 503)
            self.assertIn("/sys/kernel", fleet.fleet_state()["reason"])
            self.assertTrue(fleet.failed_worker())
            self.assertEqual(fleet.gateway.log_text().count("worker cannot hold its stage"), 1)

    def test_a_cache_that_cannot_be_made(self):
        with FleetWithout("/sys/kernel/longhaul") as fleet:
            self.assertEqual(fleet.workers[0].wait(), 1)
            self.assertRegex(fleet.workers[0].log_text(), "longhaul-worker: .*/sys/kernel/longhaul")


class FleetWithout(Fleet):
    """One worker whose cache folder is no good; nobody waits for it to be ready."""

    fair_ends = {0, 1}

    def __init__(self, cache, gateway_flags=()):
        super().__init__(1, gateway_flags=gateway_flags, fetches=True)
        self.cache = cache

    def cache_folder(self, number):
        return self.cache

    def wait_ready(self):
        wait_until(lambda: self.get("/livez")[0] == 200, "the gateway is there")

    def failed_worker(self):
        workers = self.fleet_state()["workers"]
        return next((worker for worker in workers if (worker["assignment"] or {}).get("state") == "failed"), None)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
