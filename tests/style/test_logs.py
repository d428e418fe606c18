"""The log's lines are a message and then key=value pairs, as common/base/log.h has it; and a range of layers is written in one way, 0-14, both included."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("common", "gateway", "kernels", "link", "worker")
DOCUMENTS = ("*.md", "docs/*.md", "common/protocol/*.md")

LITERAL = r'"(?:[^"\\]|\\.)*"'
SEQUENCE = re.compile(rf"{LITERAL}(?:\s*(?:{LITERAL}|PRI\w+))*")
FIELD = re.compile(r'(?:^| )([a-z][a-z0-9_]*)=("[^"]*"|[^ "]*[^ "])(?= |$)')
RESERVED = ("time", "level", "module", "message")
# Layers between brackets, or "layers 0 to 14": 0-14 is meant.
OTHER_RANGES = (re.compile(r"[\[(](?:%u|\d+), ?(?:%u|\d+)\)? ?(?:of|layers)"), re.compile(r"\blayers? (?:%u|\d+) (?:to|until|through) (?:%u|\d+)"),
                re.compile(r"\blayers?[ =](?:%u|\d+)(?:\.\.|:)(?:%u|\d+)"), re.compile(r"\blayers[ =]\["))


def formats(text):
    """The formats of all calls of lh_log, whole: the first literal behind the module's, which is one word and may be a variable."""
    for call in re.finditer(r"\blh_log\(", text):
        end = re.compile(rf"(?:{LITERAL}|[^\";])*;").match(text, call.end())
        found = [m for m in SEQUENCE.findall(end[0] if end else "")]
        if len(found) > 1 and re.fullmatch(r'"\w+"', found[0]) and "?" not in found[0]:
            found = found[1:]
        if found:
            yield "".join(p[1:-1] if p[0] == '"' else "u" for p in re.findall(rf"{LITERAL}|PRI\w+", found[0])).replace('\\"', '"')


def problems_of_format(format):
    first = FIELD.search(format)
    message, fields = (format[:first.start()], format[first.start():]) if first else (format, "")
    keys = [match[1] for match in FIELD.finditer(fields)]
    if not message.strip():
        yield "has no message in front of its fields"
    if FIELD.sub("", fields):
        yield f"has {FIELD.sub('', fields)!r} among its fields"
    if len(set(keys)) < len(keys):
        yield "has a key twice"
    if set(keys) & set(RESERVED):
        yield "has a key that the line itself has"
    if re.search(r"layers=(?!%u-%u( |$))", fields):
        yield "does not write layers as layers=%u-%u"


def problems_of_text(text):
    for pattern in OTHER_RANGES:
        for match in pattern.finditer(text):
            yield f"writes a range of layers as {match[0]!r}, not as 0-14"


def self_test():
    good = 'chain is ready chain=%s layers=%u-%u ms=%.1f why="%s" left_out=%llu'
    assert not list(problems_of_format(good)), list(problems_of_format(good))
    for bad in ("chain=%s is ready", 'm a=%s%s b="%s"%s', "m a=%s a=%s", "m time=%s", "m layers=%u..%u", "m a=%s and \"more\""):
        assert list(problems_of_format(bad)), bad
    assert list(formats('lh_log(is_x(c, 1) ? LH_LOG_DEBUG : LH_LOG_INFO, "api", "a b=%" PRIu64 " "\n "c=%s", d);')) == ["a b=%u c=%s"]
    for bad in ("layers [0, 15)", "layers 0 to 14", "layers 3..4"):
        assert list(problems_of_text(bad)), bad


def main():
    self_test()
    found, count = [], 0
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.[ch]")):
            text = path.read_text()
            own = list(formats(text))
            count += len(own)
            found += [f"{path.relative_to(ROOT)}: {format!r} {problem}" for format in own for problem in problems_of_format(format)]
            if path.suffix == ".c":
                found += [f"{path.relative_to(ROOT)}: {problem}" for problem in problems_of_text("\n".join(re.findall(LITERAL, text)))]
    for pattern in DOCUMENTS:
        for path in sorted(ROOT.glob(pattern)):
            found += [f"{path.relative_to(ROOT)}: {problem}" for problem in problems_of_text(path.read_text())]
    print("\n".join(found))
    print(f"{len(found)} problems in {count} lines of the log")
    return 1 if found or count < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
