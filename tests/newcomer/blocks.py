"""The commands of a document, as they stand there, and what a reader must see of each.

A command is a block indented by four spaces, as Markdown has it. A comment above it, which readers of the page do not see, says what comes of it;
several comments stand for as many times that it is run:

    <!-- newcomer: [needs "NAME"] [on "MACHINE"] [brings "FILE"] [before "TEXT"] [types "REGEX"] [background "TEXT"] shows "REGEX" [shows "REGEX"]
         [replace "TEXT" by "REGEX"] [after "TEXT"] -->
    <!-- newcomer: not run: REASON -->

`shows`: the output must match. `replace`: a placeholder of the text stands for the first group of REGEX in what the section's blocks have shown
so far; `types`: so does what the reader types where he is asked. `on`: on which machine, "home" (where nothing is said), "office", which began as
a copy of it, or "fresh", which has nothing. `needs`: what root has seen to by then on that machine (trial.py). `brings`: a file that was copied
there from "home", to the same place beside the tree. `before`, `after`: what the reader does with his own hands, such as choosing an editor or
stopping what he started. `background`: commands that begin so go on running until the section ends, and their output counts as it comes. A block
of a section that is to be run and has no such comment is an error, so that nobody adds a command which nobody tries."""

import dataclasses
import pathlib
import re


class Unreadable(ValueError):
    """The document has a block without a comment, or a comment that says nothing which is understood."""


@dataclasses.dataclass
class Block:
    """line: where the commands begin in the document, from 1. background: how commands begin that go on running. reason: why it is not run. All
    but the commands' text as in the comment; None where it says nothing."""

    line: int
    commands: str
    shows: list = ()
    replacements: list = ()
    machine: str = "home"
    needs: str = None
    brings: str = None
    before: str = None
    types: str = None
    background: str = None
    after: str = None
    reason: str = None


MACHINES = ("home", "office", "fresh")
# What tests/newcomer/run --all tries, in this order.
SECTIONS = (("README.md", "Try it"), ("README.md", "Test it"), ("docs/OPERATING.md", "Two real machines"), ("docs/OPERATING.md", "In a container"),
            ("docs/OPERATING.md", "With Compose"), ("docs/OPERATING.md", "From packages"), ("docs/OPERATING.md", "As services of systemd"))
_COMMENT = re.compile(r"<!-- newcomer: (.*) -->$")
_WORDS = re.compile(r'(shows|on|needs|brings|before|types|background|after) "((?:[^"\\]|\\.)*)"|(replace) "((?:[^"\\]|\\.)*)" by "((?:[^"\\]|\\.)*)"')


def _unquoted(text):
    return text.replace('\\"', '"')


def _parse(text, where):
    """The keywords of Block that a comment stands for."""
    if text.startswith("not run: "):
        return {"reason": text.removeprefix("not run: ")}
    shows, replacements, more = [], [], {}
    for words in _WORDS.finditer(text):
        if words[1] == "shows":
            shows.append(_unquoted(words[2]))
        elif words[1]:
            more["machine" if words[1] == "on" else words[1]] = _unquoted(words[2])
        else:
            replacements.append((_unquoted(words[4]), _unquoted(words[5])))
    if not shows or _WORDS.sub("", text).strip() or more.get("machine", "home") not in MACHINES:
        raise Unreadable(f"{where}: not understood: {text}")
    return {"shows": shows, "replacements": replacements, **more}


def blocks(document, section):
    """The blocks of "## section" of a Markdown file, in order."""
    found, comments, is_inside, current = [], [], False, []
    for number, line in enumerate(pathlib.Path(document).read_text().splitlines() + [""], 1):
        where = f"{document}:{number}"
        if line.startswith("#"):
            is_inside = line.lstrip("#").strip() == section
        if not is_inside:
            continue
        if line.startswith("    "):
            if not current:
                if not comments:
                    raise Unreadable(f"{where}: a command without a comment that says what it must show")
                current = [Block(number, "", **comment) for comment in comments]
                found += current
                comments = []
            for block in current:
                block.commands += line[4:] + "\n"
        elif line.strip() == "":
            for block in current:
                block.commands += "\n"
        else:
            current = []
        match = _COMMENT.match(line)
        if match:
            comments.append(_parse(match[1], where))
    if not found:
        raise Unreadable(f"{document} has no commands under {section!r}")
    for block in found:
        block.commands = block.commands.strip("\n") + "\n"
    return found
