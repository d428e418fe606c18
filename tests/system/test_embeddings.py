"""POST /v1/embeddings: what it takes and refuses, both encodings the same to the bit, beside numpy's forward pass, and the same bits on 1, 2 and 3
workers, however the prompt is cut, in company, from a warm cache and with a worker killed in the middle of a prompt."""

import base64
import concurrent.futures
import pathlib
import struct
import sys
import tempfile
import time
import unittest

from fleet import Fleet
from programs import run_tests
from raw_http import ask

try:
    import numpy as np
    import openai

    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "truth"))
    from numpy_model import Exact, Int8, Model
    from small_model import MODELS, Type, Writer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TEXT = ("We the People of the United States, in Order to form a more perfect Union, establish Justice, insure domestic Tranquility, provide for the "
        "common defence, promote the general Welfare, and secure the Blessings of Liberty to ourselves and our Posterity. ")
LONG = TEXT * 8


def embed(fleet, input_, **more):
    reply = ask(fleet.port, "POST", "/v1/embeddings", {"input": input_, "encoding_format": "base64", **more})
    assert reply.status == 200, reply.body
    return reply.json()


def vectors(fleet, input_, **more):
    """The bytes of each."""
    data = embed(fleet, input_, **more)["data"]
    assert [item["index"] for item in data] == list(range(len(data)))
    return [base64.b64decode(item["embedding"], validate=True) for item in data]


class AgainstNumpy(unittest.TestCase):
    def check(self, title, type_, arithmetic, pooling, wanted, workers=2):
        """pooling: of the file; wanted: the rows that it is made of. Files of one byte a token."""
        tokens = list(TEXT[:60].encode())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.gguf"
            architecture, layers, keys, has = MODELS[title]
            Writer(path, 3, type_).write(architecture, layers, {**keys, **({} if pooling is None else {"pooling_type": pooling})}, has)
            expected = Model(str(path)).embedding(np.array(tokens), arithmetic, wanted)
            with Fleet(workers, model=path) as fleet:
                (got,) = vectors(fleet, tokens)
        got = np.frombuffer(got, dtype="<f4")
        self.assertAlmostEqual(float(np.dot(got.astype(np.float64), got)), 1, delta=1e-6)
        np.testing.assert_allclose(got, expected, atol=2e-6)

    def test_mean_of_floats(self):
        self.check("qwen2", Type.F32, Exact(), None, slice(None))

    def test_mean_of_quantized_weights(self):
        self.check("qwen3", Type.Q8_0, Int8(), 1, slice(None))

    def test_last_row(self):
        self.check("qwen3", Type.Q8_0, Int8(), 3, slice(-1, None))

    def test_first_row(self):
        self.check("qwen3", Type.Q8_0, Int8(), 2, slice(0, 1))

    def test_a_model_that_ranks_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.gguf"
            architecture, layers, keys, has = MODELS["qwen3"]
            Writer(path, 3, Type.Q8_0).write(architecture, layers, {**keys, "pooling_type": 4}, has)
            with Fleet(1, model=path) as fleet:
                reply = ask(fleet.port, "POST", "/v1/embeddings", {"input": "a"})
        self.assertEqual((reply.status, reply.error()["code"]), (400, "unsupported_value"))


class OneAnswer(unittest.TestCase):
    """The file is SmolLM2: what one worker says in one piece is what all say."""

    @classmethod
    def setUpClass(cls):
        with Fleet(1) as fleet:
            cls.expected = vectors(fleet, [LONG, "short", TEXT])

    def test_workers(self):
        for workers in (2, 3):
            with Fleet(workers) as fleet:
                self.assertEqual(vectors(fleet, [LONG, "short", TEXT]), self.expected)

    def test_every_kind_of_cut(self):
        for overlap in ("off", "rows=16", "rows=7,columns=4"):
            with self.subTest(overlap=overlap), Fleet(2, gateway_flags=["--overlap", overlap]) as fleet:
                self.assertEqual(vectors(fleet, [LONG, "short", TEXT]), self.expected)

    def test_company_and_a_warm_cache(self):
        with Fleet(2) as fleet:
            ask(fleet.port, "POST", "/v1/completions", {"prompt": LONG, "max_tokens": 1})
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                talk = [pool.submit(ask, fleet.port, "POST", "/v1/completions", {"prompt": TEXT[i:], "max_tokens": 30}) for i in range(4)]
                mine = [pool.submit(vectors, fleet, [LONG, "short", TEXT]) for _ in range(3)]
                many = pool.submit(vectors, fleet, ["short"] * 40)
                for each in mine:
                    self.assertEqual(each.result(), self.expected)
                self.assertEqual(set(many.result()), {self.expected[1]})
                self.assertEqual({each.result().status for each in talk}, {200})

    def test_a_worker_is_killed_in_the_middle_of_the_prompt(self):
        with Fleet(2, gateway_flags=["--overlap", "rows=16"]) as fleet:
            for victim in (0, 1):
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    asked = pool.submit(vectors, fleet, [LONG, "short", TEXT])
                    time.sleep(0.15)
                    self.assertFalse(asked.done())
                    fleet.workers[victim].kill()
                    fleet.start_worker(victim)
                    self.assertEqual(asked.result(), self.expected)
                fleet.wait_ready()


class Interface(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = cls.enterClassContext(Fleet(1))
        cls.client = cls.enterClassContext(openai.OpenAI(base_url=f"{cls.fleet.url}/v1", api_key="none", max_retries=0))

    def refuse(self, param, **body):
        reply = ask(self.fleet.port, "POST", "/v1/embeddings", body)
        self.assertEqual(reply.status, 400, reply.body)
        self.assertEqual(reply.error()["param"], param)

    def test_four_shapes_are_one(self):
        ids = ask(self.fleet.port, "POST", "/tokenize", {"prompt": TEXT}).json()["tokens"]
        one = vectors(self.fleet, TEXT)
        for input_ in ([TEXT], ids, [ids]):
            self.assertEqual(vectors(self.fleet, input_), one)
        both = embed(self.fleet, [ids, ids[:5]])
        self.assertEqual(both["usage"], {"prompt_tokens": len(ids) + 5, "total_tokens": len(ids) + 5})
        self.assertEqual([item["object"] for item in both["data"]], ["embedding"] * 2)

    def test_both_encodings_have_the_same_bits(self):
        reply = ask(self.fleet.port, "POST", "/v1/embeddings", {"input": TEXT, "encoding_format": "float"}).json()
        floats = reply["data"][0]["embedding"]
        self.assertEqual([struct.pack("<576f", *floats)], vectors(self.fleet, TEXT))
        self.assertEqual(ask(self.fleet.port, "POST", "/v1/embeddings", {"input": TEXT}).json()["data"][0]["embedding"], floats)

    def test_openai_works_unchanged(self):
        answer = self.client.embeddings.create(model=self.client.models.list().data[0].id, input=[TEXT, "short"])
        self.assertEqual([len(item.embedding) for item in answer.data], [576, 576])
        plain = self.client.embeddings.create(model=answer.model, input=TEXT, encoding_format="float", dimensions=576)
        # Nine digits tell a float, but not the double that Python makes of it.
        self.assertEqual(*(struct.pack("<576f", *each.data[0].embedding) for each in (plain, answer)))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens)

    def test_what_is_refused(self):
        self.refuse("input")
        self.refuse("input", input=[])
        self.refuse("input", input={})
        self.refuse("input", input=["a", ""])
        self.refuse("input[0]", input=[49152])
        self.refuse("input[1][0]", input=[[1], [-1]])
        self.refuse("input", input=["a"] * 2049)
        self.refuse("input", input="a " * 20000)
        self.refuse("dimensions", input="a", dimensions=64)
        self.refuse("encoding_format", input="a", encoding_format="int8")
        self.refuse("truncate_prompt_tokens", input="a", truncate_prompt_tokens=5)
        self.assertEqual(ask(self.fleet.port, "POST", "/v1/embeddings", {"input": "a", "model": "other"}).status, 404)


if __name__ == "__main__":
    # Under a sanitizer what has a kill in it, and one of each kind.
    run_tests(sys.modules[__name__], ["AgainstNumpy.test_last_row", "OneAnswer.test_a_worker_is_killed_in_the_middle_of_the_prompt", "Interface"])
