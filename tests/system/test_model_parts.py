"""A model in several files is the model that it was in one: to the API, to workers that fetch it, to those that have a file of their own."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from fleet import Fleet
from gguf_parts import split
from programs import build_folder, need_file, need_model, run_tests
from raw_http import ask
from test_worker_weights import fetched

PARTS = 4
PROMPT = {"prompt": "The tide is", "max_tokens": 16, "temperature": 0, "ignore_eos": True, "logprobs": 2}


def answer(fleet):
    reply = ask(fleet.port, "POST", "/v1/completions", PROMPT)
    assert reply.status == 200, reply.body
    body = reply.json()
    return body["choices"], body["system_fingerprint"], body["model"]


class Parts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="longhaul-parts-")
        stem = os.path.basename(need_model()).removesuffix(".gguf")
        cls.parts = split(need_model(), cls.folder, stem, PARTS)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def fleet(self, model, second):
        """A gateway with `model`; worker 1 fetches its weights, worker 2 has the file `second`."""
        worker = need_file(build_folder() / "longhaul-worker", "longhaul-worker is not built")
        return Fleet(2, gateway_flags=["--logits-digest"], model=model, fetches=True, worker_programs={1: [worker, "--model", second]})

    def fetched_by_each(self, fleet):
        return [fetched(worker.log_text()) for worker in fleet.workers]

    def test_all_of_it_is_one_model(self):
        with self.fleet(need_model(), self.parts[0]) as fleet:
            expected, digests, identity = answer(fleet), fleet.drawn(), fleet.fleet_state()["model"]
            self.assertEqual([got > 0 for got, _ in self.fetched_by_each(fleet)], [True, False])
        # Any part names it; weights are served out of the right file.
        with self.fleet(self.parts[2], need_model()) as fleet:
            self.assertEqual(answer(fleet), expected)
            self.assertEqual(fleet.drawn(), digests)
            self.assertEqual(fleet.fleet_state()["model"], identity)
            self.assertEqual([got > 0 for got, _ in self.fetched_by_each(fleet)], [True, False])

    def test_a_missing_part_is_named(self):
        program = need_file(build_folder() / "longhaul-gateway", "longhaul-gateway is not built")
        with tempfile.TemporaryDirectory() as folder:
            for part in (self.parts[0], self.parts[3]):
                os.symlink(part, os.path.join(folder, os.path.basename(part)))
            first = os.path.join(folder, os.path.basename(self.parts[0]))
            done = subprocess.run([program, "--model", first, "--listen", "127.0.0.1:0", "--fleet-listen", "127.0.0.1:0"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("parts 2, 3 of 4 are missing", done.stderr)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
