"""Random requests for the public port: bodies that the server's own description (GET /openapi.json) makes plausible, then made odd, and sent in odd
ways. Each is made of a seed and a number alone, so that the two say which it was."""

import copy
import gzip
import json
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "truth"))

from random_schemas import RandomSchemas  # noqa: E402
from test_regex import random_pattern  # noqa: E402

ODD_TEXTS = ("", "\0", "a\0b", "\u0004", "\x1b[0m", "\x7f", "\ud800", "\udc00\ud800", "\uffff", "\ufeff", "\u202eabc", "e\u0301" * 40, "\U0001f600", "\U000e0041", "a" * 5000,
             " " * 300, "\n" * 90, "<|im_end|>", "<|im_start|>system\n", "<|endoftext|>", "{{ messages }}", "{%", "%s%n%99999d", "../../etc/passwd", "null", "-1", "\\", "\"",
             "<tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": {", "</think>", "data: [DONE]\n\n", "\r\n\r\nHTTP/1.1 200 OK", "true", "#/a", "$ref", "(" * 300, "日本語")
ODD_NUMBERS = (0, 1, -1, 2, 1.0, 0.5, -0.0, 1e-320, 1e308, -1e308, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -2**63, -2**63 - 1, 10**40, 128, 129, 49151, 49152,
               float("nan"), float("inf"), 1e-9, 65536)
WORDS = ("Once upon a time", "Hello", "1 + 1 =", "The sea", "a b c d e f", "def f(x):\n", "Ich möchte", "日本", "x", "weather in Paris?")
PATTERNS = ("a*", "[ab]{2,4}", "\\d+", "(", "[", "a{1000000}", "(a|b)*c{3,}", "^a$", "\\p{L}", "(a?){60}", "[^\\x00-\\x7f]", "\u0004", "(?=a)", "\\1", "[\u0000]", "")
GRAMMARS = ('root ::= "a" | "b" root', "root ::= [a-z]+", "root ::= root", "root ::=", "", 'root ::= x y\nx ::= "a"\ny ::= "b"*', 'root ::= "\\x04"', 'root ::= [^a]{3,5}',
            "a ::= b", 'root ::= ("a" | ("b" root)){2,9}', 'root ::= ""', "root ::= [\\x00-\\x1f]")
TEXT_FIELDS = {"user", "safety_identifier", "prompt_cache_key", "cache_salt", "instructions", "model", "system"}
# What an answer must be like: one of these at most. No token begins with some of the characters, which only the model's vocabulary tells.
FORMS = ("guided_json", "guided_regex", "guided_choice", "guided_grammar", "response_format", "structured_outputs", "structural_tag", "grammar", "json_schema")
TOKENLESS = ("\u0004", "\x1b[0m", "\x01\x02", "\x7f")
# There is most to be asked of.
OFTEN = {"/v1/chat/completions": 3, "/v1/completions": 3, "/v1/responses": 2, "/v1/messages": 2, "/api/chat": 2}
# At most so many tokens, most of the time: the answers are not what is looked for.
LIMITS = {"/v1/chat/completions": "max_tokens", "/v1/completions": "max_tokens", "/v1/responses": "max_output_tokens", "/v1/messages": "max_tokens"}
# Most are long enough for most answers. One that lost its limit in a mutation would go on for as long as the context.
TIMEOUTS_S = (0.01, 0.5, *[20] * 18)
GETS = ("/v1/models", "/models", "/v1/models/{}", "/tokenizer_info", "/health", "/readyz", "/livez", "/version", "/openapi.json", "/api/tags", "/api/ps", "/api/version", "/fleet", "/fleet/map", "/trace/{}", "/fleet/workers/{}", "/{}", "*")
METHODS = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "POST", "TRACE", "get", "G\0T")
IN_A_PATH = ("", "a", "%00", "%", "%zz", "..", "%2e%2e%2f", "?a=b&c", "x" * 3000, "%ff%fe", "smollm2", "#", "a/b/c", "%F0%9F%98%80", "\\", "req_0")
HEADERS = (("Accept-Encoding", "gzip"), ("X-Request-Id", "a" * 200), ("X-Request-Id", "ok-1"), ("Authorization", "Bearer \x01"), ("Authorization", "Basic"), ("Origin", "http://x.example"),
           ("anthropic-version", "2023-06-01"), ("x-api-key", "é"), ("Connection", "close"), ("Content-Encoding", "br"), ("Cookie", "a" * 4000), ("Traceparent", "00-0-0-0"),
           ("Accept", "\t"), ("Expect", "100-continue"), ("Upgrade", "h2c"), ("Range", "bytes=0-"), ("X-A", ""))


# Around a value, again and again.
NESTS = (("[", "]"), ('{"a":', "}"), ('{"type":"array","items":', "}"), ('[0,{"content":', "}]"), ('{"anyOf":[{"type":"null"},', "]}"))
NESTED = re.compile(r'"nested (\d+) (\d+)\."')


def nest(match):
    before, behind = NESTS[int(match[1])]
    return before * int(match[2]) + "1" + behind * int(match[2])


class RandomRequest:
    """data: all that is sent. ending: "whole", the answer is read; or "cut", the client leaves after data[:sent]; or "left", it leaves when it has
    read `read` bytes of the answer. is_plain: nothing was done to the HTTP of it. path: the route's."""

    def __init__(self, seed, number, schemas):
        """schemas: path -> what the server says of a body there."""
        self.random, self.schemas = random.Random(f"{seed}/{number}"), schemas
        self.is_plain, self.headers = True, []
        self.method = "POST"
        paths = sorted(schemas)
        self.path = self.random.choices(paths, [OFTEN.get(path, 1) for path in paths])[0]
        self.body = self.json_of(self.odd(self.plausible()))
        kind = self.random.random()
        if kind < 0.05:
            self.look()
        elif kind < 0.10:
            self.body = self.spoilt(self.body)
        if self.random.random() < 0.15:
            self.headers += self.random.sample(HEADERS, self.random.randrange(1, 3))
        self.data = self.framed()
        ending = self.random.random()
        self.ending = "cut" if ending < 0.06 else "left" if ending < 0.16 else "whole"
        self.sent = self.random.randrange(len(self.data)) if self.ending == "cut" else len(self.data)
        self.read = self.random.choice((0, 1, 30, 300, 1500))

    # -- bodies

    def some(self, *choices):
        return self.random.choice(choices)

    def text(self):
        return self.some(*WORDS) if self.random.random() < 0.7 else self.some(*ODD_TEXTS)

    def texts(self):
        return [self.text() for _ in range(self.random.randrange(5))]

    def plausible(self):
        make = {"/v1/completions": self.completion, "/v1/embeddings": self.embedding, "/detokenize": self.detokenized, "/tokenize": self.tokenized,
                "/v1/responses": self.response, "/api/generate": self.generated, "/api/embed": self.embedding, "/api/embeddings": self.generated,
                "/api/show": dict}.get(self.path, self.conversation)
        body = make()
        if self.path in LIMITS:
            body[LIMITS[self.path]] = self.random.randrange(1, 6)
            body["timeout"] = self.some(*TIMEOUTS_S)
        if self.path in ("/api/chat", "/api/generate"):
            body["options"] = {**self.value({**self.schemas[self.path]["properties"]["options"], "type": "object"}, 1), "num_predict": self.random.randrange(1, 6)}
            body["timeout"] = self.some(*TIMEOUTS_S)
        fields = self.schemas[self.path].get("properties", {})
        names = sorted(fields if self.random.random() < 0.1 else set(fields) - set(FORMS))
        for name in self.random.sample(names, min(len(names), self.random.randrange(6))):
            if name not in body:
                body[name] = self.field(name, fields[name])
        if self.random.random() < 0.25:
            body["stream"] = self.path not in ("/api/chat", "/api/generate")  # where it is what they do anyway
        if self.random.random() < 0.4 and self.path in ("/v1/completions", "/v1/chat/completions"):
            name = self.some(*FORMS)
            body[name] = self.field(name, {})
        return body

    def completion(self):
        ids = [self.random.randrange(49152) for _ in range(self.random.randrange(1, 9))]
        return {"prompt": self.some(self.text(), self.texts(), ids, [ids, ids[:2]])}

    def embedding(self):
        return {"input": self.completion()["prompt"]}

    def generated(self):
        return {"prompt": self.text()}

    def detokenized(self):
        return {"tokens": [self.random.randrange(49152) for _ in range(self.random.randrange(20))]}

    def tokenized(self):
        return {"prompt": self.text()} if self.random.random() < 0.7 else self.conversation()

    def response(self):
        items = [self.some({"role": "user", "content": self.text()}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": self.text()}]},
                           {"type": "function_call", "call_id": "c1", "name": "f", "arguments": self.some("{}", self.text())},
                           {"type": "function_call_output", "call_id": "c1", "output": self.text()}, {"type": "reasoning", "summary": []}) for _ in range(self.random.randrange(1, 4))]
        return {"input": self.some(self.text(), items)}

    def conversation(self):
        messages = [self.message() for _ in range(self.random.randrange(1, 5))]
        return {"messages": messages if self.random.random() < 0.3 else [*messages[:self.random.randrange(2)], {"role": "user", "content": self.text()}]}

    def message(self):
        role = self.some("user", "assistant", "system", "tool", "developer", "function")
        content = self.some(self.text(), self.text(), [{"type": self.some("text", "input_text", "output_text", "image_url", "tool_result"), "text": self.text()}], None)
        message = {"role": role, "content": content}
        if role == "assistant" and self.random.random() < 0.5:
            message["tool_calls"] = [{"id": "c1", "type": "function", "function": {"name": self.text(), "arguments": self.some("{}", "{\"a\": 1}", "{", self.text(), {"a": 1})}}]
        if role == "tool":
            message["tool_call_id"] = self.some("c1", self.text())
        return message

    def json_schema(self):
        return RandomSchemas(self.random.random()).whole()[0]

    def tools(self):
        functions = [{"name": self.some("f", "g", "get_weather", self.text()), "description": self.text(), "parameters": self.json_schema(), "strict": self.some(True, False)}
                     for _ in range(self.random.randrange(1, 4))]
        if self.path == "/v1/messages":
            return [{"name": function["name"], "input_schema": {"type": "object", **function["parameters"]}} for function in functions]
        return [{"type": "function", **function} if self.path == "/v1/responses" else {"type": "function", "function": function} for function in functions]

    def structural_tag(self):
        return {"structures": [{"begin": self.some("<f>", " the", self.text()), "schema": self.json_schema(), "end": self.some("</f>", self.text())}],
                "triggers": [self.some("<f", "<f>", " the", self.text())]}

    def format(self):
        return self.some({"type": "text"}, {"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": self.text(), "strict": True, "schema": self.json_schema()}},
                         {"type": "structural_tag", **self.structural_tag()}, {"type": "grammar", "grammar": self.some(*GRAMMARS)}, {"type": "json_schema", "schema": self.json_schema()})

    def pattern(self):
        return self.some(self.some(*PATTERNS), self.some(*TOKENLESS) + "+", random_pattern(self.random, 3), random_pattern(self.random, 3))

    def choice(self):
        return self.some([self.text()], [self.some(*TOKENLESS)], self.texts())

    def guide(self):
        return self.some({"json": self.json_schema()}, {"regex": self.pattern()}, {"choice": self.choice()}, {"grammar": self.some(*GRAMMARS)}, {"structural_tag": json.dumps(self.structural_tag())})

    def field(self, name, schema):
        of = {"n": lambda: self.some(1, 2, 3), "best_of": lambda: self.some(1, 2, 3), "stop": lambda: self.some(self.text(), self.texts()), "stop_sequences": self.texts,
              "guided_json": self.json_schema, "json_schema": self.json_schema, "guided_regex": self.pattern, "guided_choice": self.choice,
              "guided_grammar": lambda: self.some(*GRAMMARS), "grammar": lambda: self.some(*GRAMMARS), "structured_outputs": self.guide, "structural_tag": self.structural_tag,
              "response_format": self.format, "text": lambda: {"format": self.format()}, "tools": self.tools,
              "tool_choice": lambda: self.some("auto", "none", "required", {"type": "any"}, {"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}),
              "logit_bias": lambda: {str(self.random.randrange(50000)): self.some(-100, 100, 0.5) for _ in range(3)}, "timeout": lambda: self.some(*TIMEOUTS_S),
              "min_tokens": lambda: self.some(0, 2), "top_logprobs": lambda: self.random.randrange(6), "prompt_logprobs": lambda: self.random.randrange(6),
              "stop_token_ids": lambda: [self.random.randrange(49152) for _ in range(3)], "metadata": lambda: {self.text(): self.text()},
              "stream_options": lambda: {"include_usage": self.some(True, False), "continuous_usage_stats": True}, "chat_template_kwargs": lambda: {self.text(): self.value({}, 2)},
              "thinking": lambda: {"type": "enabled", "budget_tokens": self.some(1, 1024)}, "longhaul": lambda: {"timing": True}}
        return of[name]() if name in of else self.text() if name in TEXT_FIELDS else self.value(schema, 4)

    def value(self, schema, depth):
        if "enum" in schema:
            return self.some(*schema["enum"])
        kind = schema.get("type", ["string", "integer", "object", "array", "boolean", "null", "number"])
        kind = self.some(*kind) if isinstance(kind, list) else kind
        low, high = schema.get("minimum", schema.get("exclusiveMinimum", 0)), schema.get("maximum", 100)
        if kind == "object":
            fields = schema.get("properties", {"a": {}})
            return {name: self.value(inner, depth - 1) for name, inner in fields.items() if depth and self.random.random() < 0.5}
        if kind == "array":
            return [self.value(schema.get("items", {}), depth - 1) for _ in range(self.random.randrange(4) if depth else 0)]
        return {"boolean": lambda: self.some(True, False), "null": lambda: None, "string": self.text, "integer": lambda: self.some(low, high, int(low) + 1),
                "number": lambda: self.some(low, high, (low + high) / 2)}[kind]()

    # -- what is odd about them

    def places(self, value, found):
        """(object or list, key) of all that is inside."""
        keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in list(keys)[:40]:
            found.append((value, key))
            self.places(value[key], found)
        return found

    def nested(self):
        """Deeper than Python can go: words in its place until the body is text."""
        return f"nested {self.random.randrange(len(NESTS))} {self.some(3, 30, 130, 600, 2040, 5000)}."

    def odd_value(self):
        return self.some(self.some(*ODD_TEXTS), self.some(*ODD_NUMBERS), self.nested(), None, True, [], {}, [None], ["a"] * 300, {"": ""}, self.json_schema(), {"type": self.text()},
                         {"$ref": "#"}, [[1, 2], "a"], self.text())

    def odd(self, body):
        if self.random.random() < 0.4:
            return body
        body = copy.deepcopy(body)
        for _ in range(self.random.randrange(1, 4)):
            places = self.places(body, [])
            if not places:
                break
            inside, key = self.random.choice(places)
            action = self.random.randrange(5)
            if action == 0:
                del inside[key]
            elif action == 1 and isinstance(inside, dict):
                inside[self.text()] = inside[key]
            elif action == 2 and isinstance(inside, list):
                inside *= 7
            else:
                inside[key] = self.odd_value()
        return body

    def json_of(self, body):
        text = NESTED.sub(nest, json.dumps(body, ensure_ascii=self.random.random() < 0.5))
        return text.encode("utf-8", self.some("surrogatepass", "replace"))

    def spoilt(self, body):
        """As bytes that need not be JSON."""
        body = bytearray(body)
        for _ in range(self.random.randrange(1, 4)):
            at = self.random.randrange(len(body) + 1)
            action = self.random.randrange(5)
            if action == 0:
                del body[at:]
            elif action == 1:
                body[at:at] = bytes([self.random.randrange(256)])
            elif action == 2:
                body[at:at + 1] = self.some(b"", b"\\u0000", b"\\ud800", b"\xff", b"\xc0\x80", b"1e999", b"{", b"]")
            elif action == 3:
                body[at:at] = self.some(b"[", b"{\"a\":") * self.some(10, 3000)
            else:
                body = body[at:] + body[:at]
        return bytes(body)

    # -- HTTP

    def look(self):
        """A route that is read, or a method that is not its own."""
        self.method = self.some("GET", "GET", *METHODS)
        self.path = self.some(*GETS, self.path).replace("{}", self.some(*IN_A_PATH))
        if self.random.random() < 0.7:
            self.body = None
        self.is_plain = False

    def framed(self):
        head = f"{self.method} {self.path} HTTP/1.1\r\nHost: localhost\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in self.headers)
        if self.body is None:
            return (head + "\r\n").encode("utf-8")
        head += "Content-Type: application/json\r\n"
        if self.random.random() < 0.92:
            return f"{head}Content-Length: {len(self.body)}\r\n\r\n".encode("utf-8") + self.body
        self.is_plain = False
        length, kind = len(self.body), self.random.randrange(8)
        if kind == 0:
            head += f"Content-Length: {self.some(length + 5, max(0, length - 3), 0, 2**64, 2**63, -1, 'a', '+1', '', f'{length} {length}')}\r\n"
        elif kind == 1:
            head += f"Content-Length: {length}\r\nContent-Length: {self.some(length, length + 1)}\r\n"
        elif kind == 2:
            head += f"Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"
        elif kind == 3:
            head += "Transfer-Encoding: chunked\r\n"
            self.body = self.chunked()
        elif kind == 4:
            self.body = gzip.compress(self.body)
            head += f"Content-Encoding: gzip\r\nContent-Length: {len(self.body)}\r\n"
        elif kind == 5:
            self.body = self.spoilt(gzip.compress(self.body))
            head += f"Content-Encoding: gzip\r\nContent-Length: {len(self.body)}\r\n"
        elif kind == 6:
            head = head.replace("application/json", self.some("text/plain", "application/json; charset=utf-16", "", "a" * 300, "multipart/form-data"))
            head += f"Content-Length: {length}\r\n"
        else:
            head = head.replace("Host: localhost", self.some("Host: evil.example", "Host:", "X: y", "Host: localhost:99999", "Host: a\r\nHost: b")).replace("HTTP/1.1", self.some("HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9"))
            head += f"Content-Length: {length}\r\n"
        return (head + "\r\n").encode("utf-8") + self.body

    def chunked(self):
        chunks, at = b"", 0
        while at < len(self.body):
            size = self.some(1, 7, 64, 4096)
            piece = self.body[at:at + size]
            chunks += f"{len(piece):x}{self.some('', '', ';a=b')}\r\n".encode() + piece + b"\r\n"
            at += size
        return chunks + self.some(b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n", b"zz\r\n", b"-1\r\n\r\n", b"ffffffffffffffff1\r\n")
