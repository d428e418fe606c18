"""The official `openai` client, with its strict validation of answers on, against a gateway and its workers: every endpoint, every
parameter, and what it raises when something fails."""

import asyncio
import concurrent.futures
import math
import random
import sys
import time
import unittest

from fleet import Fleet
from programs import PATIENCE_S, memory_for_some_layers, run_tests, wait_until
from raw_http import ask

try:
    import openai
    from openai import AsyncOpenAI, OpenAI
except ImportError:
    print("skipped: the Python package openai is not installed")
    sys.exit(77)

MODEL = "smollm2/135M-Instruct"
ASK = [{"role": "user", "content": "Why is the sky blue? Answer in one sentence."}]


def client_of(fleet, base="/v1", strict=True):
    return OpenAI(base_url=fleet.url + base, api_key="none", _strict_response_validation=strict, max_retries=0, timeout=PATIENCE_S)


class FleetTest(unittest.TestCase):
    workers = 2
    gateway_flags = worker_flags = ()

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(cls.workers, ["--model-name", MODEL, "--log-level", "debug", *cls.gateway_flags], cls.worker_flags).__enter__()
        cls.client = client_of(cls.fleet)
        # The client's type of a completion's choice has no null finish_reason, though every chunk of a stream but the last has one, at
        # OpenAI too: it can read such streams only leniently.
        cls.lenient = client_of(cls.fleet, strict=False)

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    def chat(self, messages=None, **more):
        more = {"temperature": 0, "max_tokens": 16, **more}
        return self.client.chat.completions.create(model=MODEL, messages=messages or ASK, **more)

    def complete(self, prompt="The sky is", **more):
        more = {"temperature": 0, "max_tokens": 8, **more}
        client = self.lenient if more.get("stream") else self.client
        return client.completions.create(model=MODEL, prompt=prompt, **more)

    def refused(self, kind, param, call, **fields):
        with self.assertRaises(kind) as raised:
            call(**fields)
        error = raised.exception
        self.assertEqual(error.param, param, error.message)
        self.assertTrue(error.code is None or isinstance(error.code, str))
        self.assertEqual(error.type, "invalid_request_error")
        return error

    def idle(self):
        wait_until(lambda: self.fleet.fleet_state()["queue"]["running"] == 0, "no sequence runs any more")


def text_of(stream):
    """Text and finish reasons of a chat stream by choice, and the last chunk's usage; checks the order of things."""
    texts, finishes, usage, ids = {}, {}, None, set()
    for chunk in stream:
        ids.add((chunk.id, chunk.created, chunk.model, chunk.object, chunk.system_fingerprint))
        if not chunk.choices:
            assert usage is None
            usage = chunk.usage
        for choice in chunk.choices:
            assert usage is None and choice.index not in finishes
            if choice.index not in texts:
                assert choice.delta.role == "assistant" and not choice.delta.content
                texts[choice.index] = ""
            else:
                assert choice.delta.role is None
            texts[choice.index] += choice.delta.content or ""
            if choice.finish_reason:
                finishes[choice.index] = choice.finish_reason
    assert len(ids) == 1 and set(texts) == set(finishes)
    return texts, finishes, usage


class Models(FleetTest):
    workers = 1
    gateway_flags = ["--model-alias", "gpt-tiny"]

    def test_list_and_retrieve(self):
        for base in ("/v1", "", "/v1/"):
            client = client_of(self.fleet, base)
            models = client.models.list().data
            self.assertEqual([m.id for m in models], [MODEL, "gpt-tiny"])
            self.assertEqual((models[0].object, models[0].max_model_len, models[0].aliases), ("model", 8192, ["gpt-tiny"]))
            self.assertEqual(client.models.retrieve("gpt-tiny").root, MODEL)
            self.assertEqual(self.complete(extra_body={"model": "gpt-tiny"}).model, MODEL)
            self.assertEqual(client.models.retrieve(MODEL).id, MODEL)
            self.assertEqual(self.fleet.get(base.rstrip("/") + "/models/" + MODEL)[0], 200)
            self.assertEqual(self.fleet.get(base.rstrip("/") + "/models/" + MODEL.replace("/", "%2F"))[0], 200)
            with self.assertRaises(openai.NotFoundError) as raised:
                client.models.retrieve("no/such")
            self.assertEqual(raised.exception.code, "model_not_found")

    def test_both_base_urls_serve(self):
        for base in ("/v1", ""):
            client = client_of(self.fleet, base)
            asked = {"model": MODEL, "max_tokens": 4, "temperature": 0, "extra_body": {"ignore_eos": True}}  # else nothing may be the whole answer
            self.assertTrue(client.chat.completions.create(messages=ASK, **asked).choices[0].message.content)
            self.assertTrue(client.completions.create(prompt="Hello", **asked).choices[0].text)

    def test_unknown_model(self):
        for call in (lambda: self.client.chat.completions.create(model="gpt-4o", messages=ASK),
                     lambda: self.client.completions.create(model="gpt-4o", prompt="x")):
            with self.assertRaises(openai.NotFoundError) as raised:
                call()
            self.assertEqual((raised.exception.code, raised.exception.param), ("model_not_found", "model"))

    def test_request_id(self):
        raw = self.client.chat.completions.with_raw_response.create(model=MODEL, messages=ASK, max_tokens=2)
        self.assertTrue(raw.headers["x-request-id"])
        self.assertTrue(int(raw.headers["openai-processing-ms"]) >= 0)
        answer = raw.parse()
        self.assertEqual(answer._request_id, raw.headers["x-request-id"])

    def test_operators_routes(self):
        for path in ("/health", "/readyz", "/livez", "/version", "/fleet"):
            self.assertEqual(self.fleet.get(path)[0], 200, path)
        state = self.fleet.fleet_state()
        self.assertEqual(state["state"], "ready")
        self.assertEqual(len(state["workers"]), 1)


class Chat(FleetTest):
    def test_answer(self):
        answer = self.chat()
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.model, MODEL)
        self.assertTrue(answer.system_fingerprint.startswith("fp_"))
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertEqual((answer.choices[0].finish_reason, answer.usage.completion_tokens), ("length", 16))

    def test_ends_by_itself(self):
        answer = self.chat([{"role": "user", "content": "Say the word yes and nothing else."}], max_tokens=200)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertLess(answer.usage.completion_tokens, 200)
        self.assertNotIn("<|im_end|>", answer.choices[0].message.content)

    def test_stream_is_the_answer(self):
        for fields in ({}, {"n": 3, "temperature": 0.9, "seed": 5}, {"stop": ["scatter", " the"]}, {"logprobs": True, "top_logprobs": 2},
                       {"max_tokens": 60, "temperature": 1.5, "seed": 11}):
            whole = self.chat(**fields)
            texts, finishes, usage = text_of(self.chat(**fields, stream=True, stream_options={"include_usage": True}))
            self.assertEqual([texts[c.index] for c in whole.choices], [c.message.content for c in whole.choices])
            self.assertEqual([finishes[c.index] for c in whole.choices], [c.finish_reason for c in whole.choices])
            self.assertEqual(usage, whole.usage)

    def test_usage_only_where_asked(self):
        self.assertIsNone(text_of(self.chat(stream=True))[2])
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}))
        self.assertTrue(all(chunk.usage for chunk in chunks))
        self.assertEqual(chunks[-1].usage.completion_tokens, 16)

    def test_roles_and_parts(self):
        for messages in (
            [{"role": "system", "content": "Be brief."}, *ASK],
            [{"role": "developer", "content": "Be brief."}, *ASK],
            [*ASK, {"role": "assistant", "content": "Scattering."}, {"role": "user", "content": "Why?"}],
            [{"role": "user", "content": [{"type": "text", "text": "Say"}, {"type": "text", "text": "yes."}]}],
            [{"role": "user", "content": "x", "name": "me"}],
        ):
            self.assertEqual(self.chat(messages, max_tokens=4).usage.completion_tokens, 4)
        same = [self.chat([{"role": role, "content": "Be brief."}, *ASK]).choices[0].message.content for role in ("system", "developer")]
        self.assertEqual(same[0], same[1])
        error = self.refused(openai.BadRequestError, "messages[0].content[0]", self.chat,
                             messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x"}}]}])
        self.assertIn("image_url", error.message)
        self.refused(openai.BadRequestError, "messages[0].role", self.chat, messages=[{"role": "robot", "content": "x"}])

    def test_special_tokens_in_a_users_text_are_text(self):
        plain = self.chat([{"role": "user", "content": "<|im_end|>"}]).usage.prompt_tokens
        empty = self.chat([{"role": "user", "content": ""}]).usage.prompt_tokens
        self.assertGreater(plain - empty, 3)

    def test_choices_and_seeds(self):
        def texts(**fields):
            return [c.message.content for c in self.chat(temperature=1.0, **fields).choices]

        three = texts(n=3, seed=7)
        self.assertEqual(three, texts(n=3, seed=7))
        self.assertEqual(len(set(three)), 3)
        self.assertEqual(three[1:2], texts(seed=8))  # choice i is drawn with seed + i
        self.assertNotEqual(texts(n=2), texts(n=2))
        self.assertEqual(len(texts(n=16, max_tokens=2)), 16)
        self.assertEqual(texts(seed=-1), texts(seed=-1))
        self.assertEqual(texts(seed=2**63 - 1), texts(seed=2**63 - 1))

    def test_stop(self):
        text = self.chat(max_tokens=40).choices[0].message.content
        for stop in (text[5:9], [text[20:23], text[12:19]], text[:3]):
            answer = self.chat(max_tokens=40, stop=stop).choices[0]
            cut = min((text.index(s) + len(s), text.index(s)) for s in ([stop] if isinstance(stop, str) else stop))[1]
            self.assertEqual((answer.message.content, answer.finish_reason), (text[:cut], "stop"))
        self.assertEqual(self.chat(max_tokens=40, stop=["\x01"]).choices[0].message.content, text)
        self.idle()

    def test_lengths(self):
        self.assertEqual(self.chat(max_tokens=3).usage.completion_tokens, 3)
        self.assertEqual(self.chat(max_tokens=9, max_completion_tokens=3).usage.completion_tokens, 3)
        self.assertEqual(self.chat(max_tokens=None, max_completion_tokens=5).usage.completion_tokens, 5)
        short = [{"role": "user", "content": "Say the word yes and nothing else."}]
        drawn = self.chat(short, max_tokens=60).usage.completion_tokens
        self.assertLess(drawn, 60)
        self.assertEqual(self.chat(short, max_tokens=60, extra_body={"ignore_eos": True}).usage.completion_tokens, 60)
        longer = self.chat(short, max_tokens=60, extra_body={"min_tokens": drawn + 5}).usage.completion_tokens
        self.assertGreaterEqual(longer, drawn + 5)
        stopped = self.chat(ASK, max_tokens=60, extra_body={"stop_token_ids": [30]}).choices[0]  # "."
        self.assertEqual((stopped.finish_reason, "." in stopped.message.content), ("stop", False))

    def test_logprobs(self):
        answer = self.chat(logprobs=True, top_logprobs=3)
        entries = answer.choices[0].logprobs.content
        self.assertEqual(len(entries), 16)
        self.assertEqual(b"".join(bytes(e.bytes) for e in entries).decode(), answer.choices[0].message.content)
        for entry in entries:
            self.assertEqual(len(entry.top_logprobs), 3)
            self.assertLessEqual(entry.logprob, 0)
            self.assertEqual(entry.logprob, entry.top_logprobs[0].logprob)  # greedy
            self.assertEqual([t.logprob for t in entry.top_logprobs], sorted((t.logprob for t in entry.top_logprobs), reverse=True))
        self.assertEqual(self.chat(logprobs=True).choices[0].logprobs.content[0].top_logprobs, [])
        self.assertEqual(len(self.chat(logprobs=True, top_logprobs=20, max_tokens=1).choices[0].logprobs.content[0].top_logprobs), 20)
        self.assertIsNone(self.chat().choices[0].logprobs)
        streamed = []
        for chunk in self.chat(logprobs=True, top_logprobs=3, stream=True):
            if chunk.choices[0].logprobs:
                streamed += chunk.choices[0].logprobs.content
        self.assertEqual(streamed, entries)

    def test_samplers_change_the_answer(self):
        plain = self.chat(max_tokens=40).choices[0].message.content
        for fields in ({"presence_penalty": 2}, {"frequency_penalty": 2}, {"extra_body": {"repetition_penalty": 1.8}}):
            self.assertNotEqual(self.chat(max_tokens=40, **fields).choices[0].message.content, plain, fields)
        hot = {"temperature": 2, "seed": 3, "max_tokens": 40}
        wild = self.chat(**hot).choices[0].message.content
        for fields in ({"top_p": 1e-6}, {"extra_body": {"top_k": 1}}, {"extra_body": {"min_p": 1}}):
            self.assertNotEqual(self.chat(**hot, **fields).choices[0].message.content, wild, fields)
            self.assertEqual(self.chat(**hot, **fields).choices[0].message.content, plain, fields)  # all of them leave the likeliest

    def test_logit_bias(self):
        def forced(token):
            return self.chat(max_tokens=2, logit_bias={str(token): 100}, logprobs=True).choices[0]

        names = {}
        for token in range(20, 50):  # punctuation, digits and capitals
            choice = forced(token)
            self.assertEqual(len({e.token for e in choice.logprobs.content}), 1)
            names[choice.logprobs.content[0].token] = token
        drawn = {e.token for e in self.chat(max_tokens=60, logprobs=True).choices[0].logprobs.content}
        self.assertTrue(drawn & set(names))
        banned = self.chat(max_tokens=60, logprobs=True, logit_bias={str(token): -100 for token in names.values()}).choices[0]
        self.assertFalse({e.token for e in banned.logprobs.content} & set(names))
        self.assertEqual(self.chat(logit_bias={"400": 0}).choices[0].message.content, self.chat().choices[0].message.content)

    def test_context_overflow(self):
        long = [{"role": "user", "content": "word " * 9000}]
        for stream in (False, True):
            error = self.refused(openai.BadRequestError, "messages", self.chat, messages=long, stream=stream)
            self.assertEqual(error.code, "context_length_exceeded")
            self.assertIn("context_length_exceeded", error.body["message"])  # where LangChain looks
            self.assertIn("This model's maximum context length is 8192 tokens", error.message)

    def test_refusals_name_the_field(self):
        table = {
            "temperature": 2.5, "top_p": 0, "n": 17, "max_tokens": 0, "max_completion_tokens": -2, "presence_penalty": 3,
            "frequency_penalty": -3, "top_logprobs": 5, "logit_bias": {"999999": 1}, "seed": 1.5, "stop": [""] , "stream_options": {"include_usage": True},
            "response_format": {"type": "xml"}, "modalities": ["audio"], "audio": {"voice": "alloy", "format": "wav"},
            "web_search_options": {}, "tools": [{"type": "function", "function": {"name": "f\ng"}}], "functions": [{"name": "f\ng"}],
            "tool_choice": "required", "service_tier": "gold", "reasoning_effort": "huge", "metadata": {"k": "v" * 513},
        }
        for name, value in table.items():
            wanted = {"stop": "stop[0]", "tools": "tools[0].function.name", "functions": "functions[0].name"}.get(name, name)
            self.refused(openai.BadRequestError, wanted, self.chat, **{name: value})

    def test_values_that_do_not_fit(self):
        """What JSON allows and this server does not take is said of its field, without a library's words."""
        error = self.refused(openai.BadRequestError, "seed", self.chat, seed=2**64)
        self.assertNotIn("JSON", error.message)
        for name, value in {"mirostat": 2, "typical_p": 0.5, "n_predict": 0, "length_penalty": 2}.items():
            self.refused(openai.BadRequestError, name, self.chat, extra_body={name: value})
        error = self.refused(openai.BadRequestError, "prompt[0]", self.complete, prompt=[-1])
        self.assertIn("-1", error.message)

    def test_accepted_and_ignored(self):
        answer = self.chat(user="me", safety_identifier="x", prompt_cache_key="k", metadata={"a": "b"}, service_tier="auto",
                           reasoning_effort="low", verbosity="low", store=False, modalities=["text"], parallel_tool_calls=True,
                           response_format={"type": "text"}, prediction={"type": "content", "content": "x"},
                           extra_body={"cache_salt": "s", "priority": 1, "vendor_thing": [1]})
        self.assertEqual(answer.service_tier, "default")
        self.assertEqual(answer.choices[0].message.content, self.chat().choices[0].message.content)


class Completions(FleetTest):
    def test_ids_and_stops(self):
        """What vLLM's users ask for beside the text, whole and streaming."""
        whole = self.complete(stop=["."], max_tokens=60, extra_body={"return_token_ids": True}).choices[0]
        self.assertEqual((whole.finish_reason, whole.stop_reason), ("stop", "."))
        shown = ask(self.fleet.port, "POST", "/detokenize", {"tokens": whole.token_ids}).json()["prompt"]
        self.assertEqual(shown, whole.text)
        self.assertEqual(ask(self.fleet.port, "POST", "/tokenize", {"prompt": "The sky is"}).json()["tokens"], whole.prompt_token_ids)
        parts = [chunk.choices[0] for chunk in self.complete(stop=["."], max_tokens=60, stream=True, extra_body={"return_token_ids": True})]
        self.assertEqual(parts[0].prompt_token_ids, whole.prompt_token_ids)
        self.assertEqual([token for part in parts for token in getattr(part, "token_ids", None) or []], whole.token_ids)
        self.assertEqual(parts[-1].stop_reason, ".")
        first = whole.token_ids[0]
        ended = self.complete(extra_body={"stop_token_ids": [first]}).choices[0]
        self.assertEqual((ended.text, ended.stop_reason), ("", first))
        shown = self.complete(logit_bias={"0": 100}, max_tokens=2, extra_body={"ignore_eos": True, "skip_special_tokens": False}).choices[0].text
        self.assertEqual(shown, "<|endoftext|>" * 2)

    def test_tokenizer(self):
        """As lm-eval's remote tokenizer asks, and as llama.cpp's users do."""
        dice = random.Random(5)
        info = ask(self.fleet.port, "GET", "/tokenizer_info").json()
        self.assertEqual((info["bos_token"], info["eos_token"]), ("<|im_start|>", "<|im_end|>"))
        self.assertIn("<|im_start|>", info["chat_template"])
        ends = ask(self.fleet.port, "POST", "/tokenize", {"prompt": info["eos_token"], "add_special_tokens": False}).json()
        self.assertEqual((ends["count"], ends["max_model_len"]), (1, 8192))
        for _ in range(100):
            text = "".join(chr(dice.choice([10, *range(32, 127), 233, 0x4E2D, 0x1F389])) for _ in range(dice.randrange(1, 40)))
            tokens = ask(self.fleet.port, "POST", "/tokenize", {"content": text}).json()["tokens"]
            self.assertEqual(ask(self.fleet.port, "POST", "/tokenize", {"prompt": text}).json()["tokens"], tokens)
            self.assertEqual(ask(self.fleet.port, "POST", "/detokenize", {"tokens": tokens}).json()["prompt"], text)
        tokens = ask(self.fleet.port, "POST", "/tokenize", {"prompt": "The sky is"}).json()["tokens"]
        self.assertEqual(self.complete(tokens).choices[0].text, self.complete("The sky is").choices[0].text)

    def test_prompt_shapes(self):
        whole = self.complete("The sky is")
        self.assertEqual(whole.object, "text_completion")
        self.assertTrue(whole.choices[0].text)
        both = self.complete(["The sky is", "Water is"])
        self.assertEqual([c.index for c in both.choices], [0, 1])
        self.assertEqual(both.choices[0].text, whole.choices[0].text)
        ids = [[504, 6376, 314], [504]]
        listed = self.complete(ids)
        self.assertEqual(len(listed.choices), 2)
        self.assertEqual(self.complete(ids[0]).choices[0].text, listed.choices[0].text)
        self.assertEqual(self.complete(ids[0]).usage.prompt_tokens, 3)
        matrix = self.complete(["The sky is", "Water is"], n=2, temperature=1, seed=4)
        self.assertEqual([c.index for c in matrix.choices], [0, 1, 2, 3])
        alone = self.complete("Water is", n=2, temperature=1, seed=4)
        self.assertEqual([c.text for c in matrix.choices[2:]], [c.text for c in alone.choices])
        for wrong, param in (([], "prompt"), ([[]], "prompt"), ([-1], "prompt[0]"), ([5, 49152], "prompt[1]"), ("", "prompt")):
            self.refused(openai.BadRequestError, param, self.complete, prompt=wrong)

    def test_default_length(self):
        answer = self.client.completions.create(model=MODEL, prompt="Once upon a time", temperature=0, extra_body={"ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 16)

    def test_stream_is_the_answer(self):
        for fields in ({}, {"n": 2, "temperature": 1, "seed": 1}, {"echo": True}, {"logprobs": 2}, {"stop": "e"}, {"prompt": ["The sky is", "Water is"]}):
            whole = self.complete(**fields)
            texts, finishes = {}, {}
            for chunk in self.complete(**fields, stream=True):
                self.assertEqual(chunk.object, "text_completion")
                for choice in chunk.choices:
                    self.assertNotIn(choice.index, finishes)
                    texts[choice.index] = texts.get(choice.index, "") + choice.text
                    if choice.finish_reason:
                        finishes[choice.index] = choice.finish_reason
            self.assertEqual([texts[c.index] for c in whole.choices], [c.text for c in whole.choices], fields)
            self.assertEqual([finishes[c.index] for c in whole.choices], [c.finish_reason for c in whole.choices], fields)

    def test_echo(self):
        self.assertTrue(self.complete("The sky is", echo=True).choices[0].text.startswith("The sky is"))
        only = self.complete("The sky is", echo=True, max_tokens=0)
        self.assertEqual((only.choices[0].text, only.usage.completion_tokens), ("The sky is", 0))
        self.assertEqual(only.choices[0].finish_reason, "length")
        tokens = self.complete([504, 6376, 314], echo=True, max_tokens=0, n=2)
        self.assertEqual(len({c.text for c in tokens.choices}), 1)
        self.refused(openai.BadRequestError, "max_tokens", self.complete, max_tokens=0)

    def test_logprobs(self):
        for count in (0, 1, 5, 20):
            choice = self.complete(logprobs=count).choices[0]
            found = choice.logprobs
            lengths = {len(found.tokens), len(found.token_logprobs), len(found.top_logprobs), len(found.text_offset)}
            self.assertEqual(lengths, {8})
            self.assertEqual("".join(found.tokens), choice.text)
            for token, logprob, top, offset in zip(found.tokens, found.token_logprobs, found.top_logprobs, found.text_offset):
                self.assertTrue(-9999 <= logprob <= 0)
                self.assertEqual(top[token], logprob)
                self.assertEqual(logprob, max(top.values()))
                self.assertEqual(choice.text[offset:offset + len(token)], token)
                self.assertLessEqual(sum(math.exp(v) for v in top.values()), 1.0001)
                self.assertTrue(max(1, count - 1) <= len(top) <= count + 1)
        self.refused(openai.BadRequestError, "logprobs", self.complete, logprobs=21)
        self.assertIsNone(self.complete().choices[0].logprobs)

    def test_refusals_name_the_field(self):
        for name, value in {"best_of": 3, "suffix": "x", "n": 0, "top_p": 2, "stream_options": {"include_usage": True}}.items():
            self.refused(openai.BadRequestError, name, self.complete, **{name: value})
        error = self.refused(openai.BadRequestError, "prompt", self.complete, prompt="word " * 9000)
        self.assertEqual(error.code, "context_length_exceeded")

    def test_usage(self):
        chunks = list(self.complete(stream=True, stream_options={"include_usage": True}))
        self.assertEqual((chunks[-1].choices, chunks[-1].usage), ([], self.complete().usage))


class Together(FleetTest):
    def test_alone_and_among_others(self):
        requests = [dict(messages=[{"role": "user", "content": f"Tell me about the number {i}."}], seed=i, temperature=0.8 if i % 2 else 0,
                         max_tokens=10 + i, stop=[" is"] if i % 3 == 0 else None, n=1 + i % 2) for i in range(12)]
        alone = [[c.message.content for c in self.chat(**r).choices] for r in requests]

        async def together():
            async with AsyncOpenAI(base_url=self.fleet.url + "/v1", api_key="x", _strict_response_validation=True, max_retries=0) as client:
                async def one(index, request):
                    request = {"model": MODEL, **request}
                    if index % 2:
                        return [c.message.content for c in (await client.chat.completions.create(**request)).choices]
                    texts = {}
                    async for chunk in await client.chat.completions.create(**request, stream=True):
                        for choice in chunk.choices:
                            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
                    return [texts[i] for i in sorted(texts)]

                return await asyncio.gather(*(one(i, r) for i, r in enumerate(requests)))

        self.assertEqual(asyncio.run(together()), alone)

    def test_a_stream_begins_before_it_ends(self):
        start = time.monotonic()
        stream = self.chat(max_tokens=150, stream=True, extra_body={"ignore_eos": True})
        iterator = iter(stream)
        next(iterator), next(iterator)
        first = time.monotonic() - start
        for _ in iterator:
            pass
        self.assertLess(first * 2, time.monotonic() - start)

    def test_gone_clients_free_their_slots(self):
        long = {"max_tokens": 4000, "extra_body": {"ignore_eos": True}}
        stream = self.chat(stream=True, **long)
        next(iter(stream))
        self.assertEqual(self.fleet.fleet_state()["queue"]["running"], 1)
        before = self.fleet.gateway.log_text().count("status=499")
        stream.close()
        self.idle()
        impatient = client_of(self.fleet).with_options(timeout=0.5)

        def give_up():
            with self.assertRaises(openai.APITimeoutError):
                impatient.chat.completions.create(model=MODEL, messages=ASK, **long)

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for future in [pool.submit(give_up) for _ in range(16)]:
                future.result()
        self.chat(max_tokens=2)
        self.idle()
        # None of them came to its end.
        wait_until(lambda: self.fleet.gateway.log_text().count("status=499") == before + 17, "the log says 499 for each of them")
        wait_until(self.only_prefixes_are_left, "the workers' pages are free, or hold prefixes that the gateway knows of")

    def only_prefixes_are_left(self):
        state = self.fleet.fleet_state()
        return state["queue"]["kv"][0]["pages_used"] == 0 and all(w["kv"]["sequences"] == state["queue"]["prefixes"] for w in state["workers"])


class OneWorker(FleetTest):
    """The same answers whatever the number of workers."""

    workers = 1

    def test_same_answers_as_three(self):
        requests = [dict(messages=[{"role": "user", "content": f"Name {i} things."}], seed=i, temperature=(i % 3) * 0.6, max_tokens=12,
                         logprobs=True, top_logprobs=2) for i in range(6)]
        one = [self.chat(**r) for r in requests]
        with Fleet(3, ["--model-name", MODEL]) as fleet:
            client = client_of(fleet)
            three = [client.chat.completions.create(model=MODEL, **r) for r in requests]
        self.assertEqual([a.choices for a in one], [a.choices for a in three])
        self.assertEqual({a.system_fingerprint for a in one}, {a.system_fingerprint for a in three})


class Full(FleetTest):
    gateway_flags = ("--max-sequences", "2", "--max-queue", "2")

    def test_queue_full(self):
        long = {"max_tokens": 3000, "extra_body": {"ignore_eos": True}, "stream": True}
        streams = [self.chat(**long) for _ in range(2)]
        for stream in streams:
            next(iter(stream))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(self.chat, max_tokens=2) for _ in range(2)]
            wait_until(lambda: self.fleet.fleet_state()["queue"]["waiting"] == 2, "two wait")
            with self.assertRaises(openai.RateLimitError) as raised:
                self.chat(max_tokens=2)
            self.assertEqual(self.fleet.fleet_state()["queue"]["waiting"], 2)
            self.assertEqual(raised.exception.code, "queue_full")
            self.assertTrue(1 <= int(raised.exception.response.headers["retry-after"]) <= 120)
            for stream in streams:
                stream.close()
            for future in waiting:
                self.assertEqual(future.result().usage.completion_tokens, 2)


class Failures(FleetTest):
    gateway_flags = ("--replay-timeout-ms", "1500", "--lease-ms", "1500")
    worker_flags = ("--memory-bytes", memory_for_some_layers())  # one worker alone is no chain

    def test_a_worker_dies_and_comes_back(self):
        stream = self.chat(max_tokens=4000, stream=True, extra_body={"ignore_eos": True})
        iterator = iter(stream)
        for _ in range(5):
            next(iterator)
        self.fleet.workers[1].kill()
        start = time.monotonic()
        with self.assertRaises(openai.APIError):
            for _ in iterator:
                pass
        # It is lost after a lease, and given up after the time for a replay; a busy machine has three times as long.
        self.assertLess(time.monotonic() - start, 3 * (1.5 + 1.5))
        self.fleet.wait_not_ready()
        self.assertEqual(self.client.models.list().data, [])
        with self.assertRaises(openai.InternalServerError) as raised:
            self.chat()
        self.assertEqual(raised.exception.status_code, 503)
        self.assertTrue(1 <= int(raised.exception.response.headers["retry-after"]) <= 120)
        self.assertEqual(self.fleet.get("/livez")[0], 200)
        self.fleet.start_worker(1)
        self.fleet.wait_ready()
        self.assertEqual([m.id for m in self.client.models.list().data], [MODEL])
        self.assertEqual(self.chat(max_tokens=4).usage.completion_tokens, 4)

    def test_a_spare_takes_over(self):
        """With enough memory on what is left, the stream goes on as if nothing had been."""
        fields = dict(model=MODEL, messages=ASK, temperature=0.7, seed=3, max_tokens=200, extra_body={"ignore_eos": True})
        wanted = self.client.chat.completions.create(**fields).choices[0].message.content
        with Fleet(3, ["--model-name", MODEL, "--lease-ms", "1000", "--replay-timeout-ms", "60000"]) as fleet:
            texts = []
            for number, chunk in enumerate(client_of(fleet).chat.completions.create(**fields, stream=True)):
                texts.append(chunk.choices[0].delta.content or "")
                if number == 10:
                    fleet.workers[1].kill()
            self.assertEqual("".join(texts), wanted)
            self.assertGreaterEqual(fleet.fleet_state()["queue"]["totals"]["replays"], 1)

    def test_ends_cleanly(self):
        self.assertEqual(self.chat(max_tokens=2).usage.completion_tokens, 2)
        with Fleet(2, ["--model-name", MODEL]) as fleet:
            client = client_of(fleet)
            stream = client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=60, temperature=0, stream=True)
            next(iter(stream))
            fleet.gateway.process.terminate()
            wait_until(lambda: fleet.get("/health")[0] != 200, "no longer ready")
            finishes = [c.choices[0].finish_reason for c in stream]
            self.assertTrue(finishes[-1], "what was in progress is finished")
            self.assertEqual(fleet.gateway.stop(), 0)


# What threads and memory could go wrong in; the numbers are the release build's business.
SANITIZED = ["Models", "Chat.test_answer", "Chat.test_logprobs", "Chat.test_stop", "Completions.test_prompt_shapes", "Completions.test_echo",
             "Together.test_gone_clients_free_their_slots", "Full", "Failures.test_ends_cleanly"]


# Without what test_conformance and test_fleet_life look at, too.
QUICK = ["Models", "Chat", "Completions", "Together", "OneWorker", "Full", "Failures.test_ends_cleanly", "GatewayDies"]


class GatewayDies(unittest.TestCase):
    """What is under way ends with an error that the client raises, never as if it were complete; and the next gateway serves with the same workers."""

    def test_requests_under_way_are_errors(self):
        with Fleet(1, ["--model-name", MODEL, "--renew-ms", "200"]) as fleet:
            client, raised, texts = client_of(fleet, strict=False), [], []

            def ask(is_stream):
                try:
                    answer = client.completions.create(model=MODEL, prompt="The sky is", max_tokens=1500, temperature=0, stream=is_stream, extra_body={"ignore_eos": True})
                    texts.append([chunk.choices[0].text for chunk in answer] if is_stream else answer.choices[0].text)
                except Exception as error:  # whatever kind: it must be raised at all
                    raised.append(error)

            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                asked = [pool.submit(ask, number % 2 == 0) for number in range(4)]
                wait_until(lambda: fleet.fleet_state()["queue"]["totals"]["tokens"] > 40, "tokens come")
                fleet.gateway.kill()
                for one in asked:
                    one.result()
            self.assertEqual((len(raised), texts), (4, []))
            fleet.start_gateway()
            fleet.wait_ready()
            self.assertTrue(client.completions.create(model=MODEL, prompt="The sky is", max_tokens=4).choices[0].text)

if __name__ == "__main__":
    run_tests(sys.modules[__name__], SANITIZED, quick=QUICK)
