"""Every command that README's "Try it" gives says in a comment what it must show, or why nobody can try it; tests/newcomer/run does the rest."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/newcomer"))

from blocks import SECTIONS, Unreadable, blocks  # noqa: E402
from trial import commands_of  # noqa: E402


class Blocks(unittest.TestCase):
    def read(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".md") as file:
            file.write(text)
            file.flush()
            return blocks(file.name, "Try it")

    def test_all_that_is_tried_can_be_read(self):
        for document, section in SECTIONS:
            with self.subTest(document=document, section=section):
                self.assertTrue(blocks(ROOT / document, section))

    def test_the_readme_can_be_tried(self):
        found = blocks(ROOT / "README.md", "Try it")
        self.assertEqual(found[0].commands, "./deploy/quickstart\n")
        self.assertIsNone(found[0].reason)

    def test_a_command_without_a_comment_is_refused(self):
        with self.assertRaisesRegex(Unreadable, ":3: a command without a comment"):
            self.read("## Try it\n\n    make\n")

    def test_a_comment_that_promises_nothing_is_refused(self):
        for comment in ("", "show \"x\"", "shows x", "replace \"a\" by \"b\"", "shows \"x\" twice"):
            with self.assertRaises(Unreadable, msg=comment):
                self.read(f"## Try it\n\n<!-- newcomer: {comment} -->\n    make\n")

    def test_a_command_of_two_machines(self):
        first, second = self.read('## Try it\n\n<!-- newcomer: shows "a" -->\n<!-- newcomer: on "office" background "run" shows "b" -->\n    run me\n')
        self.assertEqual((first.machine, first.background, second.machine, second.background), ("home", None, "office", "run"))
        self.assertEqual(first.commands, second.commands)
        with self.assertRaises(Unreadable):
            self.read('## Try it\n\n<!-- newcomer: on "elsewhere" shows "a" -->\n    run\n')

    def test_what_a_reader_has_and_does_himself(self):
        block, = self.read('## Try it\n\n<!-- newcomer: needs "docker" on "fresh" brings "../a" before "export EDITOR=\\"x\\"" types "(b)" shows "c" after "d" -->\n    e\n')
        self.assertEqual((block.needs, block.machine, block.brings, block.types, block.after), ("docker", "fresh", "../a", "(b)", "d"))
        self.assertEqual(commands_of(block, "", {}), 'export EDITOR="x"\ne\nd\n')

    def test_other_sections_are_left_alone(self):
        block, = self.read('## Else\n\n    rm\n\n## Try it\n\n<!-- newcomer: shows "a" shows "b" -->\n    make\n\n    test\ntext\n## More\n\n    rm\n')
        self.assertEqual((block.commands, block.shows, block.line), ("make\n\ntest\n", ["a", "b"], 8))

    def test_a_section_without_commands_is_refused(self):
        with self.assertRaisesRegex(Unreadable, "no commands"):
            self.read("## Try it\n\ntext\n")


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    print(f"{result.testsRun - len(result.failures) - len(result.errors)} passed, {len(result.failures) + len(result.errors)} failed")
    sys.exit(not result.wasSuccessful())
