"""instructor in three modes."""

import unittest

import instructor
import openai

from real_fleet import KEY, MODEL, QUESTION, URL, Weather


class Instructor(unittest.TestCase):
    def test_modes(self):
        for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
            with self.subTest(mode=mode), openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0) as plain:
                client = instructor.from_openai(plain, mode=mode)
                answer = client.chat.completions.create(model=MODEL, messages=QUESTION, response_model=Weather, max_retries=1, max_tokens=80)
                self.assertIsInstance(answer, Weather)


if __name__ == "__main__":
    unittest.main()
