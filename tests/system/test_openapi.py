"""GET /openapi.json: every route is there, and what it says of a request's fields is what the server does with them."""

import unittest

from fleet import Fleet
from raw_http import ask

POSTS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
    "/v1/completions": {"prompt": "a", "max_tokens": 1},
    "/v1/responses": {"input": "a", "max_output_tokens": 1},
    "/v1/responses/input_tokens": {"input": "a"},
    "/v1/messages": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "a"}]},
    "/v1/embeddings": {"input": "a"},
    "/apply-template": {"messages": [{"role": "user", "content": "a"}]},
    "/tokenize": {"prompt": "a"},
    "/detokenize": {"tokens": [1]},
    "/api/chat": {"messages": [{"role": "user", "content": "a"}], "options": {"num_predict": 1}},
    "/api/generate": {"prompt": "a", "options": {"num_predict": 1}},
    "/api/embed": {"input": "a"},
    "/api/embeddings": {"prompt": "a"},
    "/api/show": {},
}
OF_TYPE = {"null": None, "boolean": True, "integer": 1, "number": 0.5, "string": "a", "array": [], "object": {}}


def breaches(schema):
    """Values that the schema of a field forbids."""
    if "enum" in schema:
        yield "no such word"
    types = schema.get("type", list(OF_TYPE))
    types = [types] if isinstance(types, str) else types
    for name, value in OF_TYPE.items():
        if "enum" not in schema and name not in types and not (name == "integer" and "number" in types):
            yield value
    if "minimum" in schema and schema["minimum"] > -2**53:
        yield schema["minimum"] - 1
    if "exclusiveMinimum" in schema:
        yield schema["exclusiveMinimum"]
    if "maximum" in schema and schema["maximum"] < 2**53:
        yield schema["maximum"] + 1
    if "maxLength" in schema:
        yield "a" * (schema["maxLength"] + 1)


def described(document, path):
    return document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]


class OpenAPI(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = cls.enterClassContext(Fleet(workers=1))
        cls.document = ask(cls.fleet.port, "GET", "/openapi.json").json()

    def post(self, path, body):
        return ask(self.fleet.port, "POST", path, body)

    def test_every_route_is_described(self):
        posts = {path for path, operations in self.document["paths"].items() if "post" in operations}
        self.assertEqual(posts, set(POSTS))
        for path, operations in self.document["paths"].items():
            for method, operation in operations.items():
                if method != "parameters":
                    self.assertIn("204" if method == "options" else "200", operation["responses"], (method, path))

    def test_what_a_field_may_not_be_is_refused(self):
        for path, body in POSTS.items():
            properties = described(self.document, path)["properties"]
            self.assertEqual(self.post(path, body).status, 200, path)
            for name, schema in properties.items():
                for value in breaches(schema):
                    with self.subTest(path=path, name=name, value=repr(value)[:40]):
                        self.assertEqual(self.post(path, {**body, name: value}).status, 400)

    def test_nested_fields(self):
        chat = described(self.document, "/v1/chat/completions")["properties"]
        self.assertEqual(chat["longhaul"]["properties"]["timing"], {"type": ["boolean", "null"]})
        self.assertEqual(chat["messages"]["items"]["required"], ["role"])
        self.assertEqual(chat["messages"]["type"], ["array"])
        options = described(self.document, "/api/chat")["properties"]["options"]["properties"]
        self.assertEqual(options["num_predict"]["type"], ["integer", "null"])

    def test_what_is_required(self):
        for path, names in {"/v1/chat/completions": ["messages"], "/v1/completions": ["prompt"], "/v1/responses": ["input"],
                            "/v1/messages": ["messages"], "/v1/embeddings": ["input"], "/detokenize": ["tokens"],
                            "/api/embed": ["input"], "/api/embeddings": ["prompt"]}.items():
            with self.subTest(path):
                self.assertEqual(described(self.document, path)["required"], names)
                missing = {name: value for name, value in POSTS[path].items() if name not in names}
                self.assertEqual(self.post(path, missing).status, 400)

    def test_limits_are_those_of_this_server(self):
        with Fleet(workers=1, gateway_flags=["--strict-params"]) as fleet:
            chat = described(ask(fleet.port, "GET", "/openapi.json").json(), "/v1/chat/completions")
        self.assertFalse(chat["additionalProperties"])
        self.assertNotIn("additionalProperties", described(self.document, "/v1/chat/completions"))


if __name__ == "__main__":
    unittest.main()
