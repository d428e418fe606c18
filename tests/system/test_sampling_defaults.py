"""Where a request does not say how to draw, the operator's flags do, then the model's file, then OpenAI's API."""

import pathlib
import re
import sys
import tempfile
import unittest

from fleet import Fleet
from gguf_keys import add_keys
from programs import need_model, run_tests
from raw_http import ask

PROMPT = "Once upon a time"
# A file that wants greedy answers, and something that no request may want.
KEYS = {"general.sampling.temp": 0.0, "general.sampling.top_p": 3.0, "general.sampling.top_k": 5, "general.sampling.min_p": 0.25}
FLAGS = ("--default-min-p", "0.125")
DEFAULTS = {"temperature": 0.0, "top_p": 1.0, "top_k": 5, "min_p": 0.125, "repetition_penalty": 1.0}


class SamplingDefaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="longhaul-sampling-")
        cls.model = pathlib.Path(cls.folder.name) / "recommends.gguf"
        add_keys(need_model(), cls.model, KEYS)
        cls.fleet = Fleet(2, FLAGS, model=cls.model).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)
        cls.folder.cleanup()

    def answer(self, path, **fields):
        reply = ask(self.fleet.port, "POST", path, {"max_tokens": 12, "seed": 7, **fields})
        self.assertEqual(reply.status, 200, reply.body)
        choice = reply.json()["choices"][0]
        return choice["text"] if "text" in choice else choice["message"]["content"]

    def test_they_are_told(self):
        model = ask(self.fleet.port, "GET", "/v1/models").json()["data"][0]
        self.assertEqual(model["longhaul"]["default_sampling"], DEFAULTS)
        log = self.fleet.gateway.log_text()
        told = re.findall(r"sampling where a request does not say (.*)", log)
        self.assertEqual(told, ["temperature=0 top_p=1 top_k=5 min_p=0.125 repetition_penalty=1 "
                                "by_flags=min_p by_model=temperature,top_k"])
        ignored = re.findall(r" warn .* key=(\S+)", log)
        self.assertEqual(ignored, ["general.sampling.top_p"])

    def test_a_request_that_says_nothing_gets_them(self):
        for path, fields in (("/v1/completions", {"prompt": PROMPT}),
                             ("/v1/chat/completions", {"messages": [{"role": "user", "content": PROMPT}]})):
            greedy = self.answer(path, temperature=0, **fields)
            self.assertEqual({self.answer(path, seed=seed, **fields) for seed in range(3)}, {greedy})
            self.assertEqual(self.answer(path, temperature=None, **fields), greedy)
            # A field that is said wins, the others stay: at most five tokens to choose among, each likely enough.
            drawn = self.answer(path, temperature=2, **fields)
            self.assertEqual(drawn, self.answer(path, temperature=2, top_p=1, top_k=5, min_p=0.125, repetition_penalty=1, **fields))
            free = self.answer(path, temperature=2, top_k=0, min_p=0, **fields)
            self.assertEqual(len({greedy, drawn, free}), 3)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
