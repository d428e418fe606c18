"""A worker says that it is ten times as fast as it is, in all that it reports: it gets nearly all layers, and its share when the gateway has seen
its steps; `/fleet` and the log say so."""

import json
import sys
import unittest
import urllib.request

from default_model import default_model
from forging import ForgingFleet
from gguf_keys import layer_count
from programs import run_tests, wait_until

BOASTS = 10
# The chain changes as soon as that is worthwhile.
FLAGS = ["--rebalance-delay-ms", "1000"]


class ClaimedSpeed(unittest.TestCase):
    def complete(self, fleet):
        body = json.dumps({"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0, "ignore_eos": True})
        request = urllib.request.Request(fleet.url + "/v1/completions", body.encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["choices"][0]["text"]

    def test_who_boasts_gets_its_share_in_the_end(self):
        layers = layer_count(default_model())
        with ForgingFleet(2, boasts={1: BOASTS}, gateway_flags=FLAGS) as fleet:
            self.assertGreater(fleet.layers_of(1), 0.8 * layers)
            wanted = self.complete(fleet)

            def has_its_share():
                self.assertEqual(self.complete(fleet), wanted)
                return fleet.layers_of(1) <= 0.75 * layers

            wait_until(has_its_share, "others have layers, too")
            claims = fleet.worker_state(1)["overclaims"]
            self.assertGreater(claims["steps"] * claims["machine_token"], 3)
            self.assertIn("a worker's speed is not what it says worker=worker-2", fleet.gateway.log_text())


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
