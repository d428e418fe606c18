"""A worker of an earlier version, to which the model's architecture is not known: the present one, in whose program that name is another. It says
so once, clients get 503 with its reason, and a worker that can takes its place."""

import pathlib
import shutil
import sys
import tempfile
import unittest

from fleet import Fleet
from programs import build_folder, need_file, run_tests, wait_until
from raw_http import ask

try:
    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "truth"))
    from small_model import MODELS, Type, Writer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ARCHITECTURE = "exaone4"
REASON = "is not supported (docs/OPERATING.md names"
PROMPT = {"prompt": "The tide is", "max_tokens": 4}


def earlier_worker(folder):
    program = pathlib.Path(folder) / "longhaul-worker"
    shutil.copy(need_file(build_folder() / "longhaul-worker", "longhaul-worker is not built"), program)
    name = f"\0{ARCHITECTURE}\0".encode()
    code = program.read_bytes()
    assert code.count(name) == 1
    program.write_bytes(code.replace(name, b"\0exaone?\0"))
    return program


class Waiting(Fleet):
    """Nobody waits for a chain."""

    def wait_ready(self):
        pass


class IncapableWorker(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = pathlib.Path(cls.folder.name) / "small.gguf"
        Writer(cls.model, 1, Type.Q8_0).write(*MODELS[ARCHITECTURE])
        cls.worker = earlier_worker(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def refusals(self, fleet):
        return fleet.workers[0].log_text().count(REASON)

    def check(self, fetches):
        with Waiting(1, ["--workers", "0"], model=self.model, fetches=fetches, worker_programs={0: [self.worker]}) as fleet:
            wait_until(lambda: REASON in fleet.get("/health")[1], "GET /health tells why")
            self.assertEqual(fleet.get("/health")[0], 503)
            reply = ask(fleet.port, "POST", "/v1/completions", PROMPT)
            self.assertEqual(reply.status, 503, reply.body)
            self.assertIn(REASON, reply.json()["error"]["message"])
            said = self.refusals(fleet)
            self.assertEqual(said, 1)
            fleet.start_worker(1)
            Fleet.wait_ready(fleet)
            reply = ask(fleet.port, "POST", "/v1/completions", PROMPT)
            self.assertEqual(reply.status, 200, reply.body)
            stages = fleet.fleet_state()["chains"][0]["stages"]
            self.assertEqual([stage["worker"] for stage in stages], ["worker-2"])
            self.assertEqual(self.refusals(fleet), said, "it has tried again")

    def test_one_that_fetches_its_weights(self):
        self.check(True)

    def test_one_with_a_file(self):
        self.check(False)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
