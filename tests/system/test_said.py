"""What is wrong is said without being asked: in the log, in /health and to clients."""

import pathlib
import re
import sys
import tempfile
import unittest

from api_keys import key_line, write_private
from fleet import Fleet
from programs import Program, build_folder, free_port, need_model, run_tests, wait_until
from raw_http import ask


class Said(unittest.TestCase):
    def start_worker(self, folder, gateway, *flags, name="stray"):
        worker = Program(name, [build_folder() / "longhaul-worker", "--name", name, "--site", "home", "--gateway", gateway, "--listen", "127.0.0.1:0",
                                "--threads", "1", "--cache-dir", f"{folder}/cache-{name}", *flags], folder)
        self.addCleanup(worker.stop)
        return worker

    def wait_log(self, program, pattern):
        return wait_until(lambda: re.search(pattern, program.log_text()), f"{program.name} says {pattern}")

    def test_a_model_that_does_not_fit(self):
        """What it needs, what is offered and by whom; and what is wrong with a worker that is not used yet."""
        with tempfile.TemporaryDirectory() as folder:
            port, fleet_port = free_port(), free_port()
            gateway = Program("gateway", [build_folder() / "longhaul-gateway", "--model", need_model(), "--listen", f"127.0.0.1:{port}", "--fleet-listen",
                                          f"127.0.0.1:{fleet_port}", "--workers", "1", "--plan-delay-ms", "100", "--renew-ms", "100"], folder)
            self.addCleanup(gateway.stop)
            self.wait_log(gateway, "listening ")
            worker = self.start_worker(folder, f"http://127.0.0.1:{fleet_port}", "--memory-bytes", "5M", "--model", f"{folder}/gone.gguf")
            figures = r"needs \d+ MiB for weights and 1 workers offer 5 MiB: no split fits; add workers, lower their --kv-bytes or raise their --memory-bytes: stray 5 MiB"
            self.wait_log(gateway, rf'warn .*no chain can be formed chain=main reason="the model {figures}"')
            health = ask(port, "GET", "/health")
            self.assertEqual(health.status, 503)
            self.assertRegex(health.error()["message"], figures)
            answer = ask(port, "POST", "/v1/completions", {"prompt": "Once", "max_tokens": 1})
            self.assertEqual((answer.status, answer.error()["code"]), (503, "model_unavailable"))
            self.assertRegex(answer.error()["message"], figures)
            self.wait_log(worker, r'warn .*the local model file cannot be used: .* path="\S+gone.gguf" reason=".*gone.gguf')

    def test_a_stage_that_is_more_than_what_is_free(self):
        """The worker's own arithmetic, before it fetches anything; it goes on reporting, and is not ended by the kernel."""
        with tempfile.TemporaryDirectory() as folder:
            port, fleet_port = free_port(), free_port()
            gateway = Program("gateway", [build_folder() / "longhaul-gateway", "--model", need_model(), "--listen", f"127.0.0.1:{port}", "--fleet-listen",
                                          f"127.0.0.1:{fleet_port}", "--workers", "1", "--plan-delay-ms", "100", "--renew-ms", "100"], folder)
            self.addCleanup(gateway.stop)
            self.wait_log(gateway, "listening ")
            worker = self.start_worker(folder, f"http://127.0.0.1:{fleet_port}", "--memory-bytes", "1G", "--kv-bytes", "900G")
            figures = r"layers 0-\d+ need 900\.\d+ GiB \(weights 0\.\d+, KV cache 900\.00, steps 0\.\d+\) and \d+\.\d+ GiB are free: lower --kv-bytes"
            self.wait_log(worker, rf'error .*failed, trying again in 1000 ms reason="{figures}')
            self.wait_log(gateway, rf'error .*worker cannot hold its stage, .* worker=stray error="{figures}')
            self.assertRegex(ask(port, "GET", "/health").error()["message"], f"worker stray cannot load its layers: {figures}")
            answer = ask(port, "POST", "/v1/completions", {"prompt": "Once", "max_tokens": 1})
            self.assertEqual((answer.status, answer.error()["code"]), (503, "model_unavailable"))
            self.assertRegex(answer.error()["message"], figures)
            fetched = sum(path.stat().st_size for path in pathlib.Path(folder, "cache-stray").rglob("*") if path.is_file())
            self.assertLess(fetched, 10 << 20, "the header alone was fetched")

    def test_behind_keys_strangers_hear_no_names(self):
        with tempfile.TemporaryDirectory() as folder:
            port, fleet_port = free_port(), free_port()
            keys = write_private(pathlib.Path(folder) / "keys", key_line("somebody", "sk-CANARY"))
            gateway = Program("gateway", [build_folder() / "longhaul-gateway", "--model", need_model(), "--listen", f"127.0.0.1:{port}", "--fleet-listen",
                                          f"127.0.0.1:{fleet_port}", "--workers", "1", "--renew-ms", "100", "--api-key-file", keys], folder)
            self.addCleanup(gateway.stop)
            self.wait_log(gateway, "listening ")
            self.start_worker(folder, f"http://127.0.0.1:{fleet_port}", "--memory-bytes", "5M")
            self.wait_log(gateway, "no chain can be formed")
            message = ask(port, "GET", "/health").error()["message"]
            self.assertIn("1 workers offer 5 MiB", message)
            self.assertNotIn("stray", message)

    def test_a_worker_at_the_public_port(self):
        """Both sides tell it which port is meant."""
        with Fleet(workers=1) as fleet:
            worker = self.start_worker(fleet.folder, f"http://127.0.0.1:{fleet.port}")
            self.wait_log(worker, rf'no answer of the gateway, .*reason="\S+:{fleet.port} is the gateway.s public API; its fleet port is {fleet.fleet_port}')
            self.wait_log(fleet.gateway, rf"warn .*a worker asks at the public API.s port: .* worker=stray peer=\S+ fleet_port={fleet.fleet_port}")
            answer = ask(fleet.port, "PUT", "/fleet/workers/another", {})
            self.assertEqual((answer.status, answer.error()["code"], answer.headers["longhaul-fleet-port"]), (421, "fleet_port", str(fleet.fleet_port)))

    def test_a_gateway_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            worker = self.start_worker(folder, f"http://localhost:{port}")
            line = self.wait_log(worker, rf'no answer of the gateway, trying on tried=http://localhost:{port} addresses="(.*)" for_s=0 reason="(.*)"')
            self.assertIn("127.0.0.1", line[1])
            self.assertIn(str(port), line[2])
            # Said again while it lasts.
            self.wait_log(worker, rf'no answer of the gateway, trying on tried=http://localhost:{port} addresses=".*" for_s=1\d reason=')


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
