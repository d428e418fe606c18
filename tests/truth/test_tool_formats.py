"""In which format models call tools, by the chat templates of seventy real ones, those of llama.cpp (test_jinja.py fetches them). What is not in the table
is taken to write the generic format, which is Hermes's: of templates that write another one, calls are made where they are forced or strict, and are not
read otherwise."""
import sys
import unittest

import llama_cpp
import test_jinja
from programs import run_tests

FORMATS = {
    "ByteDance-Seed-OSS.jinja": "seed-oss",
    "Mistral-Small-3.2-24B-Instruct-2506.jinja": "mistral-v11",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja": "qwen3-coder",
    "Qwen3-Coder.jinja": "qwen3-coder",
    "Qwen3.5-4B.jinja": "qwen3-coder",
    "StepFun3.5-Flash.jinja": "qwen3-coder",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja": "deepseek-v3",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja": "deepseek-v3",
    "deepseek-ai-DeepSeek-V3.1.jinja": "deepseek-v3.1",
    "ibm-granite-granite-3.3-2B-Instruct.jinja": "granite",
    "llama-cpp-deepseek-r1.jinja": "deepseek-v3",
    "meta-llama-Llama-3.1-8B-Instruct.jinja": "llama-3",
    "meta-llama-Llama-3.2-3B-Instruct.jinja": "llama-3",
    "meta-llama-Llama-3.3-70B-Instruct.jinja": "llama-3",
    "mistralai-Ministral-3-14B-Reasoning-2512.jinja": "mistral-v11",
    "mistralai-Mistral-Nemo-Instruct-2407.jinja": "mistral",
    "openai-gpt-oss-120b.jinja": "gpt-oss",
    "unsloth-mistral-Devstral-Small-2507.jinja": "mistral-v11",
}
# Of those that are generic, these say so themselves.
HERMES = ("MiMo-VL", "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "Qwen-QwQ-32B",
          "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "Reka-Edge", "ibm-granite-granite-4.0", "ibm-granite-granite-4.1")


class Formats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.templates = test_jinja.fetched_templates()
        except llama_cpp.NotFetched as error:
            raise unittest.SkipTest(str(error)) from error
        cls.ours = test_jinja.Ours()
        cls.addClassCleanup(cls.ours.close)

    def test_each_template_has_its_format(self):
        self.assertGreater(len(self.templates), 60)
        found = {name: self.ours.render(template, {}, {})["tool_format"] for name, template in self.templates.items()}
        self.assertEqual({name: format for name, format in found.items() if format != "hermes"}, FORMATS)
        for name in HERMES:
            self.assertEqual(found[f"{name}.jinja"], "hermes")

    def test_calls_are_written_as_the_template_writes_them(self):
        """A model sees its own calls so, in what is told it of a conversation."""
        calls = [test_jinja.call("get_weather", {"city": "Ulm"})]
        talk = [{"role": "user", "content": "And the weather?"}, {"role": "assistant", "content": "", "tool_calls": calls}]
        marks = {"seed-oss": "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Ulm</parameter>\n</function>\n</seed:tool_call>",
                 "qwen3-coder": "<tool_call>\n<function=get_weather>\n<parameter=city>\nUlm\n</parameter>\n</function>\n</tool_call>",
                 "llama-3": '{"name": "get_weather", "parameters": {"city": "Ulm"}}',
                 "mistral": '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Ulm"}',
                 "mistral-v11": '[TOOL_CALLS]get_weather[ARGS]{"city": "Ulm"}',
                 "deepseek-v3.1": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Ulm"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
                 "gpt-oss": '<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Ulm"}<|call|>'}
        for name, format in FORMATS.items():
            if format in marks:
                answer = self.ours.render(self.templates[name], {"messages": talk, "tools": test_jinja.TOOLS}, test_jinja.TOKENS)
                mark = marks[format].replace("[ARGS]", "[CALL_ID]call00001[ARGS]") if name == "Mistral-Small-3.2-24B-Instruct-2506.jinja" else marks[format]
                self.assertIn(mark, answer["text"], name)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
