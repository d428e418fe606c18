"""What the documents and comments name is there: files, folders, links, functions. A document cannot outlive what it tells of."""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ("*.md", "docs/*.md", "common/protocol/*.md", "deploy/*.md")
ROOMS = ("common", "gateway", "kernels", "link", "worker", "tests", "deploy", "docs", "cmake")

CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
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


def document_problems(root, path, symbols, files):
    text = path.read_text()
    for target in LINK.findall(text):
        if not (path.parent / target).exists():
            yield f"links to {target}, which is not there"
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


def problems(root):
    symbols, files = names_of(root)
    for pattern in DOCUMENTS:
        for path in sorted(root.glob(pattern)):
            for problem in document_problems(root, path, symbols, files):
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
                             ("[there](gone.md)", "gone.md")):
            page.write_text(text)
            assert any(wanted in problem for problem in problems(root)), f"{text} is not found"
        page.write_text("")
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
