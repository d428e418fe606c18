"""The table of models in docs/OPERATING.md is what the programs take: a row for each architecture of common/model/architecture.c, with what it was
tried with; where that is numpy, tests/truth/small_model.py has the model. The types of tensors and the pre-tokenizers named above it are those of
common/base/dtype.h and gateway/text/pre_tokenizer.c."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rows(text):
    """{architecture: what it was tried with} of the table."""
    table = re.search(r"\| architecture \|.*?\n\n", text, re.S)
    cells = [line.strip("| ").split(" | ") for line in table[0].splitlines()[2:]] if table else []
    return {name: row[-1] for row in cells for name in re.findall(r"`([^`]+)`", row[0])}


def problems(document, architectures, types, tried, pre_tokenizers):
    found = rows(document)
    for name in sorted(set(architectures) ^ set(found)):
        yield f"{name} is {'supported, and not in' if name in architectures else 'not supported, but in'} the table"
    for name, what in found.items():
        if "beside numpy" in what and name not in tried:
            yield f"{name} is said to stand beside numpy, and tests/truth/small_model.py does not have it"
    sentence = re.search(r"with tensors of type\s+(.*?)\(", document, re.S)
    named = set(re.findall(r"[A-Z0-9_]+", sentence[1])) if sentence else set()
    for name in sorted(set(types) ^ named):
        yield f"type {name} is {'supported, and not' if name in types else 'not supported, but'} named"
    sentence = re.search(r"pre-tokenizers\s+\(`tokenizer.ggml.pre`\)(.*?)\.\s", document, re.S)
    named = set(re.findall(r"`([^`]+)`", sentence[1])) if sentence else set()
    for name in sorted(set(pre_tokenizers) ^ named):
        yield f"pre-tokenizer {name} is {'known, and not' if name in pre_tokenizers else 'not known, but'} named"


def self_test():
    text = "with tensors of type F32 and F16 (so), with the pre-tokenizers (`tokenizer.ggml.pre`)\n`a.b` and `c`. So.\n\n| architecture | for example | tried with |\n| --- | --- | --- |\n| `a`, `b` | A | beside numpy |\n\n"
    assert not list(problems(text, ["a", "b"], ["F32", "F16"], ["a", "b"], ["a.b", "c"]))
    assert len(list(problems(text, ["a", "c"], ["F32", "Q8_0"], ["a"], ["c", "d"]))) == 7, "each fault is told"


def main():
    self_test()
    architectures = re.findall(r'\.name = "([^"]+)"', (ROOT / "common/model/architecture.c").read_text())
    types = re.findall(r'X\(LH_DTYPE_\w+, \d+, "(\w+)"', (ROOT / "common/base/dtype.h").read_text())
    tried = re.findall(r'^    "[^"]+": \("([^"]+)",', (ROOT / "tests/truth/small_model.py").read_text(), re.M)
    kinds = (ROOT / "gateway/text/pre_tokenizer.c").read_text().partition("kinds[] = {")[2].partition("};")[0]
    pre_tokenizers = re.findall(r'^    \{"([^"]+)",', kinds, re.M)
    found = list(problems((ROOT / "docs/OPERATING.md").read_text(), architectures, types, tried, pre_tokenizers))
    print("\n".join([*found, f"{len(architectures)} architectures, {len(types)} types, {len(pre_tokenizers)} pre-tokenizers, {len(found)} problems"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
