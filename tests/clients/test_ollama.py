"""ollama: the lists, show, chats whole and streaming, a tool with its result, a form, generate, embeddings, and what is refused."""

import json
import unittest

import ollama

from real_fleet import MODEL, QUESTION, TOO_LONG, URL, WEATHER_PARAMETERS, WEATHER_TOOL, check_arguments

CALLS = "Answer with a call of the tool weather, for Paris and 3 days."


class Ollama(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = ollama.Client(host=URL.removesuffix("/v1"))

    def chat(self, **more):
        return self.client.chat(**{"model": MODEL, "messages": QUESTION, "options": {"temperature": 0, "num_predict": 24}, **more})

    def test_the_lists(self):
        (listed,) = [model for model in self.client.list().models if model.model == f"{MODEL}:latest"]
        self.assertGreater(listed.size, 1 << 20)
        self.assertTrue(listed.details.family and listed.details.quantization_level)
        (running,) = self.client.ps().models
        self.assertEqual((running.model, running.digest), (listed.model, listed.digest))
        shown = self.client.show(listed.model)
        self.assertIn("completion", shown.capabilities)
        self.assertIn("tools", shown.capabilities)
        self.assertGreater(shown.modelinfo[f"{shown.details.family}.context_length"], 0)

    def test_a_chat_is_the_same_streamed(self):
        whole = self.chat()
        self.assertTrue(whole.message.content)
        self.assertTrue(whole.done and whole.prompt_eval_count and whole.eval_count and whole.total_duration)
        *parts, last = self.chat(stream=True)
        self.assertEqual(("".join(part.message.content for part in parts), last.done_reason, last.eval_count),
                         (whole.message.content, whole.done_reason, whole.eval_count))

    def test_tags_and_what_is_left_out(self):
        tagged = self.chat(model=f"{MODEL}:latest", keep_alive="5m", options={"temperature": 0, "num_predict": 4, "num_ctx": 2048})
        self.assertEqual(tagged.done_reason, "length")
        self.assertEqual(tagged.eval_count, 4)

    def test_a_tool_and_its_result(self):
        asked = {"messages": [{"role": "user", "content": CALLS}], "tools": [WEATHER_TOOL], "options": {"temperature": 0, "num_predict": 120}}
        answer = self.chat(**asked)
        streamed = [call for part in self.chat(stream=True, **asked) for call in part.message.tool_calls or []]
        self.assertEqual(streamed, list(answer.message.tool_calls or []))
        for call in streamed:
            check_arguments(self, call.function.arguments)
        call = {"function": {"name": "weather", "arguments": {"city": "Paris", "days": 3}}}
        told = self.chat(messages=[*asked["messages"], {"role": "assistant", "content": "", "tool_calls": [call]},
                                   {"role": "tool", "tool_name": "weather", "content": "clear, 20 degrees"}])
        self.assertTrue(told.message.content)

    def test_a_form(self):
        answer = self.chat(format=WEATHER_PARAMETERS, options={"temperature": 0, "num_predict": 80})
        check_arguments(self, json.loads(answer.message.content))
        answer = self.client.generate(model=MODEL, prompt="The weather as JSON", format="json", options={"temperature": 0, "num_predict": 200})
        if answer.done_reason == "stop":
            self.assertIsInstance(json.loads(answer.response), dict)

    def test_generate(self):
        asked = {"model": MODEL, "prompt": QUESTION[0]["content"], "options": {"temperature": 0, "num_predict": 24}}
        whole = self.client.generate(**asked)
        self.assertEqual(whole.response, self.chat().message.content)
        self.assertEqual("".join(part.response for part in self.client.generate(stream=True, **asked)), whole.response)
        raw = self.client.generate(raw=True, **asked)
        self.assertLess(raw.prompt_eval_count, whole.prompt_eval_count)
        self.assertEqual(self.client.generate(model=MODEL, keep_alive="1m").done_reason, "load")

    def test_embeddings(self):
        both = self.client.embed(model=MODEL, input=["one", "two"])
        self.assertEqual(len(both.embeddings), 2)
        self.assertEqual(list(self.client.embed(model=MODEL, input="two").embeddings[0]), list(both.embeddings[1]))
        self.assertEqual(list(self.client.embeddings(model=MODEL, prompt="one").embedding), list(both.embeddings[0]))

    def test_what_is_refused(self):
        for status, words, ask in ((404, "not found", lambda: self.chat(model="other")), (404, "not found", lambda: self.client.show("other")),
                                   (404, "not found", lambda: list(self.chat(model="other", stream=True))),
                                   (400, "context", lambda: self.chat(messages=TOO_LONG)),
                                   (400, "images", lambda: self.chat(messages=[{"role": "user", "content": "x", "images": [b"x" * 9]}])),
                                   (501, "--model", lambda: self.client.pull("other")), (501, "--model", lambda: self.client.delete(MODEL)),
                                   (501, "--model", lambda: self.client.copy(MODEL, "other"))):
            with self.assertRaisesRegex(ollama.ResponseError, words) as refused:
                ask()
            self.assertEqual(refused.exception.status_code, status)


if __name__ == "__main__":
    unittest.main()
