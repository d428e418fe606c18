"""GET /openapi.json is valid OpenAPI 3.1 (openapi-spec-validator), and schemathesis, which makes thousands of requests of it, good and bad, finds no 5xx
and no answer that it does not describe: statuses, types and bodies of answers, methods that are not there, keys that are ignored, and values that it
forbids and the server takes.

One of its checks is left out, by name: positive_data_acceptance wants every body that the description allows to be taken. A schema cannot say all that is
refused: stream_options without stream, a prompt beyond the context, tokens that the vocabulary does not have, two forms of one answer. Streams are
checked by their status and type: text/event-stream is a text to it. The context is short, so that an answer whose length nobody gave ends soon."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(TESTS / "system"))

from openapi_spec_validator import OpenAPIV31SpecValidator  # noqa: E402

from api_keys import key_line, write_private  # noqa: E402
from fleet import Fleet  # noqa: E402
from raw_http import ask  # noqa: E402

KEY = "sk-lh-of-schemathesis"
LEFT_OUT = "positive_data_acceptance"


class OpenAPI(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="longhaul-openapi-"))
        keys = write_private(f"{folder}/keys", key_line("tester", KEY, "admin"))
        cls.fleet = cls.enterClassContext(Fleet(2, gateway_flags=["--context", "96", "--api-key-file", keys]))

    def test_it_is_valid(self):
        reply = ask(self.fleet.port, "GET", "/openapi.json", headers=[("Authorization", f"Bearer {KEY}")])
        self.assertEqual(reply.status, 200)
        OpenAPIV31SpecValidator(reply.json()).validate()

    def test_schemathesis_finds_nothing(self):
        # One worker: with several, Python's own parser fails inside of hypothesis.
        done = subprocess.run(
            [pathlib.Path(sys.executable).parent / "st", "run", f"{self.fleet.url}/openapi.json", "--header", f"Authorization: Bearer {KEY}",
             "--phases", "coverage,fuzzing", "--max-examples", "12", "--workers", "1", "--seed", "1", "--exclude-checks", LEFT_OUT,
             "--continue-on-failure", "--request-timeout", "120", "--warnings", "off"], cwd=self.folder, capture_output=True, text=True, timeout=1200)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])


if __name__ == "__main__":
    unittest.main()
