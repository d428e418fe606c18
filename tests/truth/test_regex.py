"""Regular expressions of constraints match what Python's re.fullmatch matches: 200 patterns, texts that are near to them and others."""
import os
import pathlib
import random
import re
import subprocess
import sys

TOOL = pathlib.Path(os.environ["LONGHAUL_BUILD"]) / "tests" / "constraint_match"
FIXED = (
    r"", r"a", r"abc", r"a|b", r"a|", r"|a", r"(ab|a)(c|bcd)(d*)", r"a*", r"a+", r"a?", r"a{3}", r"a{2,}", r"a{2,4}", r"a{,3}", r"a{0}", r"(a*)*",
    r"(a+)+b", r"(a|ab)(bc|c)?", r"[abc]+", r"[^abc]+", r"[a-c\d]{2}", r"[]a]+", r"[^]a]", r"[a\-z]+", r"[-a]+", r"[a-]+", r"\d{4}-\d{2}-\d{2}",
    r"\w+@\w+\.(com|org)", r"\s*\S+\s*", r"[\s\S]{3}", r"\D\W\S", r".", r".{2,5}", r"\.", r"\\", r"\x41\u0042", r"\t\n\r\f\v", r"\[\]\{\}\(\)", r"^abc$",
    r"^(a|b)$", r"^a|b$", r"(^a|b)c", r"(?:ab)+", r"(?P<x>ab)c", r"a{1,70}b", r"(ab){60,80}", r"((a{2,3}){2,3}){2,3}", r"(a?b?){3,100}", r"é+", r"[é-ü]+",
    r"[^é]", r"日本{2}", r"[\u4e00-\u9fff]+", r"😀|a", r"a{", r"a{x}", r"a{1", r"a{1,2", r"{", r"a*?b+?c??", r"(|a)b", r"()", r"()*a", r"(a|b|)*c",
    r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", r"\"([^\"\\]|\\.)*\"", r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", r"(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}",
    r"\-\/\:\@", r"[\b]", r"\a", r"\0", r"[\]]", r"[\^a]", r"[a^]", r"[.]", r"[*+?]", r"[\w-]+", r"[\w.-]+", r"a\Z", r"\Aa", r".*", r".*a.{3}",
)
# Longer texts are for these: Python tries all ways to read a text, which for others takes it for ever.
COUNTED = (r"a{1,70}b", r"(ab){60,80}", r"((a{2,3}){2,3}){2,3}")
REFUSED = (r"(", r")", r"[a", r"a**", r"*a", r"(?=a)", r"(?!a)", r"(?<=a)b", r"(a)\1", r"\b", r"a{3,2}", r"[b-a]", r"\x4", "\\", r"a$b", r"(?i)a", r"\p{L}", r"(?>a)", r"a++",
           r"[a-\d]", r"\u12", r"a{2000000000}")


def random_pattern(rng, depth):
    kind = rng.randrange(7) if depth else rng.randrange(3)
    if kind == 0:
        return rng.choice(("a", "b", "ab", "é", r"\.", "1", " "))
    if kind == 1:
        return rng.choice((r"\d", r"\w", "[a-c]", "[^a]", "[b1é]", ".", r"\S"))
    if kind == 2:
        return rng.choice("abc1")
    if kind in (3, 4):
        return "".join(random_pattern(rng, depth - 1) for _ in range(rng.randrange(1, 4)))
    if kind == 5:
        return "(" + "|".join(random_pattern(rng, depth - 1) for _ in range(rng.randrange(1, 4))) + ")"
    return f"(?:{random_pattern(rng, depth - 1)})" + rng.choice(("*", "+", "?", "{2}", "{1,3}", "{0,70}", "{2,}", "{,2}"))


def near_texts(rng, pattern):
    """Letters of the pattern, and usual ones, at random."""
    letters = [c for c in pattern if c.isalnum()] + list("abc1é. -\"\\\n") + ["ab", "aa", "2026-01-31", "日本", "😀", "x@y.org", "10.0.0.255", "\t", "{", "}", "[]"]
    texts = ["", "a", "ab", "abc", "b", pattern, "abcd", "a{1", "a{", "10.1.2.255", "a@b.org", "2026-11-24", "日本本", "aaaaaaaaaaaab"]
    if pattern in COUNTED:
        texts += ["a" * 65 + "b", "a" * 71 + "b", "ab" * 60, "ab" * 70, "ab" * 81, "aab" * 20, "a" * 27]
    for _ in range(120):
        texts.append("".join(rng.choice(letters) for _ in range(rng.randrange(1, 7))))
    return texts


def is_ours(text):
    """The characters on which Python and ECMA-262 agree whether they are spaces, digits and letters."""
    return all(ord(c) < 0x80 and not 0x1C <= ord(c) <= 0x1F or c in "éü日本😀" for c in text)


def ask(lines):
    data = "".join(f"{kind} {text.encode().hex()}\n" for kind, text in lines)
    answers = subprocess.run([TOOL], input=data, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(answers) == len(lines), (len(answers), len(lines))
    return answers


def main():
    rng = random.Random(25)
    patterns = list(FIXED)
    while len(patterns) < 200:
        patterns.append(random_pattern(rng, 2))
    lines, wanted = [], []
    for pattern in patterns:
        compiled = re.compile(pattern, re.ASCII)
        lines.append(("r", pattern))
        wanted.append("ok")
        for text in filter(is_ours, near_texts(rng, pattern)):
            lines.append(("t", text))
            wanted.append(str(int(bool(compiled.fullmatch(text)))))
    for pattern in REFUSED:
        lines.append(("r", pattern))
        wanted.append("refused")
    pattern, wrong = "", 0
    for line, answer, right in zip(lines, ask(lines), wanted):
        pattern = line[1] if line[0] == "r" else pattern
        if not answer.startswith(right) or (right == "refused" and "character" not in answer):
            wrong += 1
            print(f"{pattern!r}, {line[1]!r}: {answer}, not {right}")
    matched = wanted.count("1")
    print(f"{len(patterns)} patterns, {len(lines)} lines, {matched} matches, {wrong} wrong")
    assert matched > 1000
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
