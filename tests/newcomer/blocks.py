"""The commands of a document, as they stand there, and what a reader must see of each.

A command is a block indented by four spaces, as Markdown has it. A comment above it, which readers of the page do not see, says what comes of it:

    <!-- newcomer: shows "REGEX" [shows "REGEX"] [replace "TEXT" by "REGEX"] -->
    <!-- newcomer: not run: REASON -->

`shows`: the output must match. `replace`: a placeholder of the text stands for the first group of REGEX in the output of the block before. A block of a
section that is to be run and has no such comment is an error, so that nobody adds a command which nobody tries."""

import dataclasses
import pathlib
import re


class Unreadable(ValueError):
    """The document has a block without a comment, or a comment that says nothing which is understood."""


@dataclasses.dataclass
class Block:
    """line: where the commands begin in the document, from 1. reason: why it is not run, or None."""

    line: int
    commands: str
    shows: list
    replacements: list
    reason: str = None


_COMMENT = re.compile(r"<!-- newcomer: (.*) -->$")
_WORDS = re.compile(r'(shows) "((?:[^"\\]|\\.)*)"|(replace) "((?:[^"\\]|\\.)*)" by "((?:[^"\\]|\\.)*)"')


def _unquoted(text):
    return text.replace('\\"', '"')


def _parse(text, where):
    """The keywords of Block that a comment stands for."""
    if text.startswith("not run: "):
        return {"shows": [], "replacements": [], "reason": text.removeprefix("not run: ")}
    shows, replacements = [], []
    for words in _WORDS.finditer(text):
        if words[1]:
            shows.append(_unquoted(words[2]))
        else:
            replacements.append((_unquoted(words[4]), _unquoted(words[5])))
    if not shows or _WORDS.sub("", text).strip():
        raise Unreadable(f"{where}: not understood: {text}")
    return {"shows": shows, "replacements": replacements}


def blocks(document, section):
    """The blocks of "## section" of a Markdown file, in order."""
    found, comment, is_inside, current = [], None, False, None
    for number, line in enumerate(pathlib.Path(document).read_text().splitlines() + [""], 1):
        where = f"{document}:{number}"
        if line.startswith("#"):
            is_inside = line.lstrip("#").strip() == section
        if not is_inside:
            continue
        if line.startswith("    "):
            if current is None:
                if comment is None:
                    raise Unreadable(f"{where}: a command without a comment that says what it must show")
                current = Block(number, "", **comment)
                comment = None
            current.commands += line[4:] + "\n"
        elif current is not None and line.strip() == "":
            current.commands += "\n"
        elif current is not None:
            found.append(current)
            current = None
        match = _COMMENT.match(line)
        if match:
            comment = _parse(match[1], where)
    if current is not None:
        found.append(current)
    if not found:
        raise Unreadable(f"{document} has no commands under {section!r}")
    for block in found:
        block.commands = block.commands.strip("\n") + "\n"
    return found
