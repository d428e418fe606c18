"""Shapes of requests, as clients send them: who sends it, what is peculiar about it, the request, and what its answer must be like for the client
to go on. From the sources, documents and issues of those clients, and from what agents' programs have sent to this suite."""

import dataclasses
import json
import typing

HELLO = [{"role": "user", "content": "Say hello."}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Tells the weather in a city", "parameters": CITY}}
TIME = {"type": "function", "function": {"name": "get_time", "description": "Tells the time in a city", "parameters": CITY}}
FLAT = {"type": "function", "name": "get_weather", "description": "Tells the weather in a city", "parameters": CITY, "strict": False}
ANTHROPIC = {"name": "get_weather", "description": "Tells the weather in a city", "input_schema": CITY}
# One blue point of 1 x 1.
IMAGE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwADAgH/p5KrXwAAAABJRU5ErkJggg=="
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}}


@dataclasses.dataclass
class Shape:
    client: str
    what: str
    path: str
    body: typing.Any  # an object; bytes: as they are; None: a GET
    check: typing.Callable[[typing.Any], bool]
    headers: tuple = ()
    refused: str = ""  # a field that would change the answer, which this server does not do: its name


class Stream(str):
    """The text of a body that streams."""

    def events(self):
        return [line[6:] for line in self.splitlines() if line.startswith("data: ")]


SHAPES = []


def _text(answer):
    return answer["choices"][0]["message"]["content"] is not None


def _called(answer):
    (choice,) = answer["choices"]
    return choice["finish_reason"] == "tool_calls" and all("city" in json.loads(call["function"]["arguments"]) for call in choice["message"]["tool_calls"])


def _value(check):
    return lambda answer: check(json.loads(answer["choices"][0]["message"]["content"]))


def chat(client, what, check=_text, messages=None, headers=(), **more):
    body = {"model": "m", "messages": HELLO if messages is None else messages, "max_tokens": 8, "temperature": 0, **more}
    SHAPES.append(Shape(client, what, "/v1/chat/completions", body, check, headers))


def after(*messages):
    return [{"role": "user", "content": "What is the weather in Rome?"}, *messages, {"role": "user", "content": "Thank you."}]


def formed(client, what, schema, check, **more):
    chat(client, what, _value(check), max_tokens=200, response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema, **more}})


def completion(client, what, check=lambda answer: isinstance(answer["choices"][0]["text"], str), prompt="One, two,", **more):
    SHAPES.append(Shape(client, what, "/v1/completions", {"model": "m", "prompt": prompt, "max_tokens": 4, "temperature": 0, **more}, check))


def response(client, what, check=lambda answer: answer["output"][-1]["type"] == "message", **more):
    SHAPES.append(Shape(client, what, "/v1/responses", {"model": "m", "input": "Say hello.", "max_output_tokens": 16, "temperature": 0, **more}, check))


def message(client, what, check=lambda answer: answer["type"] == "message", path="/v1/messages", headers=(), **more):
    body = {"model": "m", "messages": HELLO, "max_tokens": 8, **more}
    SHAPES.append(Shape(client, what, path, body, check, (("anthropic-version", "2023-06-01"), *headers)))


def ollama(client, what, path, body, check):
    SHAPES.append(Shape(client, what, path, body if body is None else {"model": "m", **body}, check))


def get(client, what, path, check, headers=()):
    SHAPES.append(Shape(client, what, path, None, check, headers))


# ---- Chat: fields beside the messages
chat("openai-python", "the least", _text)
chat("openai-python", "max_completion_tokens", _text, max_completion_tokens=8)
chat("openai-python", "stream with usage", lambda s: s.events()[-1] == "[DONE]" and "usage" in s, stream=True, stream_options={"include_usage": True})
chat("OpenAI's own models", "a developer message", messages=[{"role": "developer", "content": "Be brief."}, *HELLO])
chat("OpenAI's own models", "store, metadata, safety_identifier, prompt_cache_key", store=True, metadata={"a": "b"}, safety_identifier="x", prompt_cache_key="k")
chat("OpenAI's own models", "reasoning_effort, verbosity", reasoning_effort="low", verbosity="low")
chat("OpenAI's own models", "service_tier, user", service_tier="auto", user="x")
chat("OpenAI's own models", "modalities: text", modalities=["text"])
chat("LangChain", "n 2", lambda a: len(a["choices"]) == 2, n=2)
chat("LangChain", "logprobs and top_logprobs", lambda a: len(a["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 3, logprobs=True, top_logprobs=3)
chat("OpenAI's specification", "top_logprobs 0", logprobs=True, top_logprobs=0)
chat("Open WebUI", "max_tokens -1", lambda a: a["choices"][0]["finish_reason"] in ("stop", "length"), max_tokens=-1, stop=["!", "."])
chat("LM Studio's users", "null for what is not set", top_p=None, stop=None, tools=None, tool_choice=None, logit_bias=None, seed=None, response_format=None)
chat("Home Assistant", "many samplers of others", top_k=20, min_p=0.05, repeat_penalty=1.1, typical_p=1, mirostat=0, repetition_penalty=1.1)
chat("SillyTavern", "dry, xtc and others that are off", dry_multiplier=0, xtc_probability=0, tfs_z=1, dynatemp_range=0, samplers=["top_k", "temperature"])
SHAPES[-1].refused = "samplers"
chat("vLLM's users", "chat_template_kwargs", chat_template_kwargs={"enable_thinking": False})
chat("Qwen's front ends", "enable_thinking: false", enable_thinking=False)
chat("Claude's front ends", "thinking: disabled", thinking={"type": "disabled"})
chat("OpenRouter's users", "reasoning {effort: none}", reasoning={"effort": "none"})
chat("Ollama's users", "think: false, keep_alive", think=False, keep_alive="5m")
chat("aider", "an assistant's prefix goes on", messages=[*HELLO, {"role": "assistant", "content": "Hello, my"}])
chat("guidellm", "ignore_eos, continuous_usage_stats", lambda s: "usage" in s, stream=True, ignore_eos=True,
     stream_options={"include_usage": True, "continuous_usage_stats": True})
chat("LiteLLM", "fields that nobody knows", metadata=None, drop_params=True, custom_llm_provider="openai", api_base="x", num_retries=2)
chat("a cut program", "a lone surrogate, a NUL", messages=[{"role": "user", "content": "a\u0000b \ud800 c"}])
SHAPES.append(Shape("a Windows program", "a byte order mark", "/v1/chat/completions",
                    b"\xef\xbb\xbf" + json.dumps({"messages": HELLO, "max_tokens": 4}).encode(), _text))
chat("Zed", "numbers beyond 64 bits in what nobody reads", trace_number=123456789012345678901234567890)
chat("agents", "more max_tokens than the context has", lambda a: a["choices"][0]["finish_reason"] in ("stop", "length"), max_tokens=32000, stop=["!", ".", ","])

# ---- Chat: messages
chat("Continue", "content in parts", messages=[{"role": "user", "content": [{"type": "text", "text": "Say"}, {"type": "text", "text": "hello."}]}])
chat("Cline", "content [] in the history", messages=[*HELLO, {"role": "assistant", "content": []}, *HELLO])
chat("Cline", "content null in the history", messages=[*HELLO, {"role": "assistant", "content": None}, *HELLO])
chat("OpenAI's agents", "a call and its result", messages=after({"role": "assistant", "content": None, "tool_calls": [CALL]},
                                                                {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"}), tools=[WEATHER])
chat("Go clients", "arguments null", messages=after(
    {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "get_weather", "arguments": None}}]}, {"role": "tool", "tool_call_id": "call_1", "content": "x"}),
    tools=[WEATHER])
chat("Go clients", "arguments of white space", messages=after(
    {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "get_weather", "arguments": " "}}]}, {"role": "tool", "tool_call_id": "call_1", "content": "x"}),
    tools=[WEATHER])
chat("MCP's hosts", "an image in a tool's result", messages=after({"role": "assistant", "content": "", "tool_calls": [CALL]}, {
    "role": "tool", "tool_call_id": "call_1", "content": [{"type": "image_url", "image_url": {"url": IMAGE}}]}), tools=[WEATHER])
chat("elder clients", "functions and function_call", lambda a: "function_call" in a["choices"][0]["message"], max_tokens=60,
     functions=[WEATHER["function"]], function_call={"name": "get_weather"})
chat("elder clients", "role function", messages=after({"role": "assistant", "content": None, "function_call": CALL["function"]},
                                                      {"role": "function", "name": "get_weather", "content": "Sunny"}))
chat("resumed sessions", "a refusal among the parts", messages=after({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}))
chat("resumed sessions", "thinking among the parts", messages=after({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "x"}]}))
chat("Responses' users", "input_text and output_text", messages=[{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
                                                                 {"role": "assistant", "content": [{"type": "output_text", "text": "x"}]}, *HELLO])
chat("DeepSeek's clients", "reasoning_content in the history", messages=after({"role": "assistant", "content": "x", "reasoning_content": "Hm."}))
chat("agents", "a system message that is not the first", messages=[*HELLO, {"role": "assistant", "content": "Hi."}, {"role": "system", "content": "Be brief."}, *HELLO])
chat("agents", "several system messages", messages=[{"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."}, *HELLO])
chat("agents", "two users' messages in a row", messages=[*HELLO, *HELLO])
chat("front ends", "name, id, timestamp in messages", messages=[{"role": "user", "content": "Hi", "name": "anna", "id": "1", "timestamp": 5}])
chat("OpenAI's custom tools", "a custom call in the history", messages=after(
    {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "patch", "input": "x"}}]}, {"role": "tool", "tool_call_id": "c", "content": "x"}))

# ---- Chat: tools
chat("openai-python", "tool_choice auto", tools=[WEATHER], tool_choice="auto")
chat("openai-python", "tool_choice required", _called, tools=[WEATHER, TIME], tool_choice="required", max_tokens=300)
chat("openai-python", "tool_choice names a function", _called, tools=[WEATHER, TIME], tool_choice={"type": "function", "function": {"name": "get_time"}}, max_tokens=300)
chat("OpenAI's specification", "allowed_tools", _called, tools=[WEATHER, TIME], max_tokens=300, tool_choice={"type": "allowed_tools", "allowed_tools": {
    "mode": "required", "tools": [{"type": "function", "function": {"name": "get_time"}}]}})
chat("OpenAI's specification", "a custom tool", tools=[{"type": "custom", "custom": {"name": "patch", "format": {"type": "text"}}}])
chat("OpenAI's specification", "a custom tool with a grammar, which is called", lambda a: len(a["choices"][0]["message"]["tool_calls"][0]["custom"]["input"]) == 2,
     tools=[{"type": "custom", "custom": {"name": "patch", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[ab]{2}"}}}}],
     tool_choice="required", max_tokens=200)
chat("Mistral's clients", "tool_choice any", _called, tools=[WEATHER], tool_choice="any", max_tokens=300)
chat("vLLM's users", "tool_choice {type: auto}", tools=[WEATHER], tool_choice={"type": "auto"})
chat("Responses' users", "tool_choice, flat", _called, tools=[WEATHER], tool_choice={"type": "function", "name": "get_weather"}, max_tokens=300)
chat("OpenAI's front ends", "web_search among the tools", tools=[WEATHER, {"type": "web_search"}])
chat("OpenAI's front ends", "mcp among the tools", tools=[WEATHER, {"type": "mcp", "server_label": "x", "server_url": "https://example.com"}])
chat("MCP's hosts", "a name of 100 characters", tools=[{"type": "function", "function": {"name": "mcp__" + "x" * 95, "parameters": CITY}}])
chat("MCP's hosts", "a name with . and /", tools=[{"type": "function", "function": {"name": "files.read/all", "parameters": CITY}}])
chat("MCP's hosts", "150 tools", tools=[{"type": "function", "function": {"name": f"t{i}", "parameters": {"type": "object"}}} for i in range(150)])
chat("MCP's hosts", "a tool without parameters", tools=[{"type": "function", "function": {"name": "now"}}])
chat("LangChain", "strict tools, parallel_tool_calls false", tools=[{"type": "function", "function": {
    "name": "f", "strict": True, "parameters": {**CITY, "additionalProperties": False}}}], parallel_tool_calls=False)
chat("LangChain.js", "a call that streams", lambda s: '"tool_calls"' in s and s.events()[-1] == "[DONE]", tools=[WEATHER], tool_choice="required", max_tokens=300, stream=True)

# ---- Chat: forms
formed("openai-python", "json_schema, strict", {**CITY, "additionalProperties": False, "properties": {"city": {"enum": ["Rome", "Paris"]}}},
       lambda v: v["city"] in ("Rome", "Paris"), strict=True)
chat("openai-python", "json_object", response_format={"type": "json_object"}, messages=[{"role": "user", "content": "Say JSON."}])
chat("llama.cpp's users", "a grammar", lambda a: a["choices"][0]["message"]["content"] in ("yes", "no"), grammar='root ::= "yes" | "no"')
chat("llama.cpp's users", "json_schema beside the messages", _value(lambda v: isinstance(v, int)), json_schema={"type": "integer", "maximum": 99, "minimum": 0})
chat("vLLM's users", "guided_choice", lambda a: a["choices"][0]["message"]["content"] in ("yes", "no"), guided_choice=["yes", "no"])
chat("vLLM's users", "structured_outputs regex", lambda a: a["choices"][0]["message"]["content"].isdigit(), structured_outputs={"regex": "[0-9]{2}"})
formed("Pydantic", "HttpUrl", {"type": "object", "properties": {"u": {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083}}, "required": ["u"]},
       lambda v: "u" in v)
formed("Pydantic", "an email with maxLength", {"type": "object", "properties": {"m": {"type": "string", "format": "email", "maxLength": 254}}, "required": ["m"]},
       lambda v: "@" in v["m"] and len(v["m"]) <= 254)
formed("Zod", "a format beside a pattern with look-around", {"type": "object", "required": ["d"], "properties": {
    "d": {"type": "string", "format": "date", "pattern": "^(?!0000)\\d{4}-\\d{2}-\\d{2}$"}}}, lambda v: len(v["d"]) == 10)
formed("Pydantic", "uniqueItems", {"type": "object", "required": ["l"], "properties": {
    "l": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True, "maxItems": 2}}}, lambda v: len(v["l"]) <= 2)
formed("Go", "required null, enum null", {"type": "object", "properties": {"a": {"type": "boolean", "enum": None}}, "required": None}, lambda v: isinstance(v, dict))
formed("elder drafts", "exclusiveMinimum true", {"type": "integer", "minimum": 3, "exclusiveMinimum": True, "maximum": 9}, lambda v: 3 < v <= 9)
formed("elder drafts", "items as a list", {"type": "array", "items": [{"type": "boolean"}, {"type": "null"}], "minItems": 2, "additionalItems": False},
       lambda v: isinstance(v[0], bool) and v[1] is None)
formed("instructor", "$defs and $ref", {"$defs": {"C": {"enum": ["a", "b"]}}, "type": "object", "properties": {"c": {"$ref": "#/$defs/C"}}, "required": ["c"]},
       lambda v: v["c"] in ("a", "b"))
formed("instructor", "anyOf with null", {"type": "object", "properties": {"c": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}}, "required": ["c"]},
       lambda v: v["c"] in (True, False, None))

# ---- Completions
completion("openai-python", "a text")
completion("openai-python", "two prompts", lambda a: len(a["choices"]) == 2, prompt=["One,", "Two,"])
completion("lm-eval", "ids of tokens", prompt=[504, 28, 1302])
completion("lm-eval", "echo and logprobs of two prompts of ids", lambda a: all(c["logprobs"]["token_logprobs"][0] is None for c in a["choices"]),
           prompt=[[504, 28], [1302, 28, 504]], echo=True, logprobs=1, max_tokens=1)
completion("lm-eval", "max_tokens 0 with echo", lambda a: a["choices"][0]["text"] == "One, two,", echo=True, logprobs=1, max_tokens=0)
completion("text front ends", "control tokens in the text", lambda a: a["usage"]["prompt_tokens"] < 12, prompt="<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
completion("text front ends", "n_predict -1, stop", n_predict=-1, max_tokens=None, stop=[","])
completion("openai-python", "best_of 1, n 2", lambda a: len(a["choices"]) == 2, n=2, best_of=2, temperature=1, seed=1)
completion("openai-python", "a stream", lambda s: s.events()[-1] == "[DONE]", stream=True)
completion("benches", "min_tokens, ignore_eos", min_tokens=4, ignore_eos=True)
completion("vLLM's users", "return_token_ids", lambda a: len(a["choices"][0]["token_ids"]) == 4, return_token_ids=True)
completion("openai-python", "logit_bias", logit_bias={"28": -100})

# ---- Responses
response("openai-python", "a text")
response("openai-python", "items", input=[{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}])
response("openai-python", "a stream", lambda s: "response.completed" in s or "response.incomplete" in s, stream=True)
response("openai-python", "instructions, store false", instructions="Be brief.", store=False)
response("openai-python", "text.format json_schema", lambda a: json.loads(a["output"][-1]["content"][0]["text"])["c"] == "a", max_output_tokens=60,
         text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object", "properties": {"c": {"enum": ["a"]}}, "required": ["c"]}}})
response("openai-python", "a function that is called", lambda a: any(o["type"] == "function_call" for o in a["output"]), tools=[FLAT], tool_choice="required",
         max_output_tokens=300)
response("Codex", "its tools", instructions="x", store=False, parallel_tool_calls=False, reasoning={"effort": "medium", "summary": "auto"}, prompt_cache_key="x",
         include=["reasoning.encrypted_content"], tools=[FLAT, {"type": "web_search"}, {"type": "local_shell"}, {"type": "image_generation", "output_format": "png"},
                                                         {"type": "tool_search"}])
response("Codex", "a custom tool with a lark grammar", tools=[{"type": "custom", "name": "apply_patch", "description": "x", "format": {
    "type": "grammar", "syntax": "lark", "definition": 'start: "a" LINE+\nLINE: /[a-z]+/ "\\n"'}}])
response("Codex", "a namespace of tools", tools=[{"type": "namespace", "name": "mcp__x", "description": "x", "tools": [FLAT]}])
response("Codex", "custom calls in the history", input=[
    {"role": "user", "content": "x"}, {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"}, {"role": "user", "content": "Go on."}])
response("Codex", "a function's call and its output", input=[
    {"role": "user", "content": "x"}, {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "ok"}, {"role": "user", "content": "Go on."}])
response("Codex", "another server's reasoning", input=[{"role": "user", "content": "x"}, {"type": "reasoning", "summary": [], "encrypted_content": "abc"},
                                                       {"role": "assistant", "content": [{"type": "output_text", "text": "y"}]}, {"role": "user", "content": "Go on."}])
response("Codex", "web_search_call and local_shell_call in the history", input=[
    {"role": "user", "content": "x"}, {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "local_shell_call", "call_id": "l", "status": "completed", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "local_shell_call_output", "call_id": "l", "output": "ok"}, {"role": "user", "content": "Go on."}])
response("OpenAI's agents", "truncation auto, metadata", truncation="auto", metadata={"a": "b"})
SHAPES.append(Shape("Codex", "tokens of the input are counted", "/v1/responses/input_tokens", {"model": "m", "input": "Say hello."}, lambda a: a["input_tokens"] > 0))

# ---- Anthropic's messages
message("anthropic-python", "the least")
message("anthropic-python", "a stream", lambda s: "message_stop" in s, stream=True)
message("Claude Code", "context_management, thinking adaptive", context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        thinking={"type": "adaptive", "display": "omitted"}, headers=(("anthropic-beta", "context-management-2025-06-27"),))
message("Claude Code", "system in blocks with cache_control", system=[{"type": "text", "text": "x-anthropic-billing-header: a=1"},
                                                                       {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        metadata={"user_id": "x"})
message("Claude Code", "max_tokens 32000", lambda a: a["stop_reason"] in ("end_turn", "stop_sequence", "model_context_window_exceeded", "max_tokens"), max_tokens=32000,
        stop_sequences=["!", ".", ","])
message("Claude Code", "a tool that is called", lambda a: a["stop_reason"] == "tool_use" and "city" in a["content"][-1]["input"], tools=[ANTHROPIC], tool_choice={"type": "any"},
        max_tokens=300)
message("Claude Code", "web_search_20250305 among the tools", tools=[ANTHROPIC, {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}])
message("Claude Code", "tool_use, tool_result with a tool_reference", messages=[
    *HELLO, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "get_weather", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "x"}]}, {"type": "text", "text": "Go on."}]}],
    tools=[ANTHROPIC])
message("resumed sessions", "redacted_thinking, server_tool_use", messages=[*HELLO, {"role": "assistant", "content": [
    {"type": "redacted_thinking", "data": "x"}, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}, {"type": "text", "text": "Hi"}]}, *HELLO])
message("anthropic-python", "an image in a tool's result", messages=[
    *HELLO, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "get_weather", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE.partition(",")[2]}}]}]}], tools=[ANTHROPIC])
message("anthropic-python", "a text document", messages=[{"role": "user", "content": [
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A note."}}, {"type": "text", "text": "What is it?"}]}])
SHAPES.append(Shape("Claude Code", "tokens are counted", "/v1/messages/count_tokens", {"model": "m", "messages": HELLO, "tools": [ANTHROPIC], "thinking": {"type": "adaptive"},
                                                                                      "context_management": {"edits": []}},
                    lambda a: a["input_tokens"] > 0, (("anthropic-version", "2023-06-01"),)))
get("anthropic-python", "the models", "/v1/models", lambda a: a["data"][0]["type"] == "model" and "has_more" in a, (("anthropic-version", "2023-06-01"),))

# ---- Ollama's
ollama("ollama-python", "chat", "/api/chat", {"messages": HELLO, "stream": False, "options": {"num_predict": 4, "num_ctx": 4096}}, lambda a: a["done"])
ollama("Home Assistant", "chat with tools, keep_alive", "/api/chat", {"messages": HELLO, "tools": [WEATHER], "stream": False, "keep_alive": "5m", "think": False,
                                                                   "options": {"num_predict": 4}}, lambda a: "content" in a["message"])
ollama("Obsidian", "generate, which streams", "/api/generate", {"prompt": "Hi", "options": {"num_predict": 4}}, lambda s: '"done":true' in s.replace(" ", ""))
ollama("ollama-python", "format with a schema", "/api/chat", {"messages": HELLO, "stream": False, "format": {"enum": ["a"]}, "options": {"num_predict": 20}},
       lambda a: json.loads(a["message"]["content"]) == "a")
get("Zed", "tags", "/api/tags", lambda a: a["models"][0]["name"])
ollama("Zed", "show", "/api/show", {}, lambda a: "capabilities" in a)

# ---- What stands beside
get("all", "the models", "/v1/models", lambda a: a["data"][0]["id"])
get("front ends", "without /v1", "/models", lambda a: a["data"][0]["id"])
SHAPES.append(Shape("lm-eval", "tokenize as vLLM has it", "/tokenize", {"prompt": "One, two"}, lambda a: len(a["tokens"]) == a["count"]))
SHAPES.append(Shape("llama.cpp's users", "tokenize as llama.cpp has it", "/tokenize", {"content": "One, two", "add_special": False}, lambda a: a["tokens"]))
