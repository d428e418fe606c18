"""What the documents and comments name is there: files, folders, links and the headings that they lead to, functions. A document cannot
outlive what it tells of."""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ("*.md", "docs/*.md", "docs/decisions/*.md", "common/protocol/*.md", "deploy/*.md")
# Written for readers of the code: their prose keeps to the columns of the code.
WRAPPED = ("CHANGELOG.md", "docs/ARCHITECTURE.md", "docs/CODE_REVIEW.md", "docs/GLOSSARY.md", "docs/decisions/*.md")
COLUMNS = 100
ROOMS = ("common", "gateway", "kernels", "link", "worker", "tests", "deploy", "docs", "cmake")

CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^):\s]*))?\)")
HEADING = re.compile(r"#{1,6} (.*)")
CONTENTS = re.compile(r"- \[.*\]\(#([^)]*)\)$")
PATH = re.compile(rf"(?<![\w/.-])((?:{'|'.join(ROOMS)})/[\w./-]*\w)")
SYMBOL = re.compile(r"\b(lh_[a-z0-9_]+)")
HEADER = re.compile(r"(?<![\w/.-])([a-z][a-z0-9_]*\.[ch])\b")


def sources(root):
    for room in ROOMS:
        for path in (root / room).rglob("*"):
            if path.suffix in (".c", ".h", ".cpp", ".cu", ".cuh"):
                yield path


def names_of(root):
    """All identifiers of the sources that begin with lh_, and the names of all files."""
    symbols, files = set(), set()
    for path in sources(root):
        symbols.update(SYMBOL.findall(path.read_text()))
        files.add(path.name)
    return symbols, files


def path_is_there(root, path):
    if "*" in path or (root / path).exists():
        return True
    return any((root / (path + ending)).exists() for ending in (".c", ".h", ".py"))


def prose(text):
    """Its lines but those of code."""
    is_fenced = False
    for line in text.splitlines():
        is_fenced ^= line.startswith("```")
        if not is_fenced and not line.startswith("    "):
            yield line


def anchors(text, levels="######"):
    """Of its headings, as GitHub makes them."""
    found = []
    for line in prose(text):
        heading = HEADING.fullmatch(line)
        if heading and len(line.split()[0]) <= len(levels):
            words = re.sub(r"\]\([^)]*\)", "]", heading[1]).lower()
            anchor = re.sub(r"[^\w -]", "", words).replace(" ", "-")
            found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return found


def heading_problems(path, text):
    """Links that lead to none, one within a line, and one that a list of contents lacks."""
    for target, anchor in LINK.findall(text):
        document = path.parent / target if target else path
        if target and not document.exists():
            yield f"links to {target}, which is not there"
        elif anchor and document.suffix == ".md" and anchor not in anchors(document.read_text()):
            yield f"links to {target}#{anchor}, and there is no such heading"
    for line in prose(text):
        if re.search(r"\S #{2,6} \w", CODE.sub("", line)):
            yield f"a heading stands within a line: {line}"
    contents = [found[1] for found in map(CONTENTS.match, prose(text)) if found]
    # The first heading of all is the title, above the list.
    for anchor in anchors(text, "##")[1:] if contents else []:
        if anchor not in contents:
            yield f"the contents lack #{anchor}"


def document_problems(root, path, symbols, files):
    text = path.read_text()
    yield from heading_problems(path, text)
    for code in CODE.findall(text):
        for symbol in SYMBOL.findall(code):
            if symbol not in symbols and not any(name.startswith(symbol) for name in symbols):
                yield f"names {symbol}, which is nowhere in the sources"
        for named in PATH.findall(code):
            if not path_is_there(root, named.rstrip(".")):
                yield f"names {named}, which is not there"
        for name in HEADER.findall(code):
            if name not in files:
                yield f"names {name}, and there is no such file"


def comment_problems(root, path, files):
    """Files that a comment of a source names."""
    for comment in re.findall(r"/\*.*?\*/", path.read_text(), re.S):
        for name in HEADER.findall(comment):
            if name not in files and name not in ("kernel.h", "ggml.h"):
                yield f"a comment names {name}, and there is no such file"


def readmes(root):
    """Those of the rooms."""
    return [path for room in ROOMS for path in sorted((root / room).rglob("README.md")) if "vectors" not in path.parts]


def matching(root, patterns):
    return [path for pattern in patterns for path in sorted(root.glob(pattern))]


def width_problems(text):
    for line in prose(text):
        if len(line) > COLUMNS and not line.startswith("|"):
            yield f"a line has more than {COLUMNS} columns: {line}"


def problems(root):
    symbols, files = names_of(root)
    for path in sorted({*matching(root, DOCUMENTS), *readmes(root)}):
        for problem in document_problems(root, path, symbols, files):
            yield f"{path.relative_to(root)}: {problem}"
    for path in sorted({*matching(root, WRAPPED), *readmes(root)}):
        for problem in width_problems(path.read_text()):
            yield f"{path.relative_to(root)}: {problem}"
    for path in sorted(sources(root)):
        for problem in comment_problems(root, path, files):
            yield f"{path.relative_to(root)}: {problem}"


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "common").mkdir()
        (root / "common" / "log.h").write_text("/* As in log.h. */\nvoid lh_log(void);\n")
        page = root / "README.md"
        page.write_text("`lh_log` of `common/log.h` and `log.h`, [here](common/log.h)")
        assert not list(problems(root)), list(problems(root))
        for text, wanted in (("`lh_gone()`", "names lh_gone"), ("`common/gone.h`", "common/gone.h"), ("`gone.h`", "gone.h"),
                             ("[there](gone.md)", "gone.md"), ("# Here\n[there](#gone)", "#gone"), ("[there](README.md#gone)", "README.md#gone"),
                             ("Ends. ## Then", "within a line"), ("# A\n- [B](#b)\n## B\n## C", "lack #c")):
            page.write_text(text)
            assert any(wanted in problem for problem in problems(root)), f"{text} is not found"
        for text in ("# A\n- [B, `c`?](#b-c)\n## B, `c`?\n", "    code ## more\n`a ## b`", "# A\n# A\n[second](#a-1)"):
            page.write_text(text)
            assert not list(problems(root)), list(problems(root))
        page.write_text("")
        page = root / "common" / "README.md"
        page.write_text("`lh_gone`")
        assert any("common/README.md: names lh_gone" in problem for problem in problems(root))
        wide = "word " * 20 + "more"
        page.write_text(wide)
        assert any("more than 100 columns" in problem for problem in problems(root))
        for text in (f"    {wide}", f"| {wide} |", f"```\n{wide}\n```", wide[:COLUMNS]):
            page.write_text(text)
            assert not list(problems(root)), list(problems(root))
        (root / "common" / "log.h").write_text("/* As in gone.h. */\n")
        assert any("a comment names gone.h" in problem for problem in problems(root))


def main():
    self_test()
    found = list(problems(ROOT))
    print("\n".join(found))
    print(f"{len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
