"""No circle of calls between files of different nouns. A noun is a header with the files that implement it: x.h with x.c and with each
x_<verb>.c that has no header of its own.

What a file calls is read from the objects of the build folder (LONGHAUL_BUILD, else build/): each symbol that nm shows as undefined in one
and defined in another is an arrow. A function that is handed over by its address is an arrow as well, from the file that names it; a static
callback is none. Before it looks at the tree, the test compiles circles of its own and expects each to be found.

    tests/style/test_calls.py [FOLDER]    all circles, or those that touch FOLDER, with one call for each arrow"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOMS = ("common", "gateway", "kernels", "link", "worker")


def objects_of(build, root):
    """{source file: object} of the rooms' files as they were last built."""
    found = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(command["file"])
        if source.is_relative_to(root) and source.relative_to(root).parts[0] in ROOMS and source.is_file():
            found[source.relative_to(root).as_posix()] = pathlib.Path(command["directory"]) / re.search(r" -o (\S+)", command["command"])[1]
    return found


def symbols_of(objects):
    """{source file: (defined, undefined)}, sets of symbols."""
    by_object = {str(path): source for source, path in objects.items()}
    text = subprocess.run(["nm", "--print-file-name", "--extern-only", "--portability", *by_object], check=True, capture_output=True,
                          text=True).stdout
    symbols = {source: (set(), set()) for source in objects}
    for line in text.splitlines():
        path, symbol, kind = re.match(r"(.*): (\S+) (\S)", line).groups()
        symbols[by_object[path]][kind in "Uwv"].add(symbol)
    return symbols


def noun_of(source, root):
    """The header whose noun `source` implements, without its ending; the file's own name where it has none."""
    folder, name = source.rsplit("/", 1)
    words = name.removesuffix(".c").split("_")
    for length in range(len(words), 0, -1):
        noun = folder + "/" + "_".join(words[:length])
        if (root / (noun + ".h")).is_file():
            return noun
    return source.removesuffix(".c")


def arrows_of(symbols, root):
    """{noun: {noun that it calls: (file, symbol, file called)}}."""
    home = {symbol: source for source, (defined, _) in symbols.items() for symbol in defined}
    arrows = {noun_of(source, root): {} for source in symbols}
    for source, (_, undefined) in sorted(symbols.items()):
        for symbol in sorted(undefined & home.keys()):
            caller, callee = noun_of(source, root), noun_of(home[symbol], root)
            if caller != callee:
                arrows[caller].setdefault(callee, (source, symbol, home[symbol]))
    return arrows


def reached_from(noun, arrows):
    reached, waiting = set(), [noun]
    while waiting:
        for further in arrows[waiting.pop()]:
            if further not in reached:
                reached.add(further)
                waiting.append(further)
    return reached


def circles(arrows):
    """The largest sets of nouns each of which reaches all the others."""
    reached = {noun: reached_from(noun, arrows) for noun in arrows}
    found = {frozenset(other for other in reached[noun] if noun in reached[other]) for noun in arrows if noun in reached[noun]}
    return sorted(sorted(circle) for circle in found)


def where(source, symbol, root):
    lines = (root / source).read_text(encoding="utf-8").splitlines()
    return next((f"{source}:{number}" for number, line in enumerate(lines, 1) if re.search(rf"\b{symbol}\b", line)), source)


def describe(circle, arrows, root):
    yield f"a circle of {len(circle)} nouns:"
    for caller in circle:
        for callee, (source, symbol, target) in sorted(arrows[caller].items()):
            if callee in circle:
                yield f"    {where(source, symbol, root)} calls {symbol} of {target}"


# Name of the case, files, the circles that are to be found.
CASES = (
    ("a sound tree", {"kv/a.h": "", "kv/a.c": "void b(void (*)(void)); static void on(void) {} void a(void) { b(on); }",
                      "kv/b.h": "", "kv/b.c": "void b(void (*f)(void)) { f(); }"}, []),
    ("three files", {"kv/a.h": "", "kv/a.c": "void b(void); void a(void) { b(); }", "kv/b.h": "", "kv/b.c": "void c(void); void b(void) { c(); }",
                     "net/c.h": "", "net/c.c": "void a(void); void c(void) { a(); }", "net/d.c": "void a(void); void d(void) { a(); }"},
     [["common/kv/a", "common/kv/b", "common/net/c"]]),
    ("files without headers", {"kv/a.c": "void b(void); void a(void) { b(); }", "kv/b.c": "void a(void); void b(void) { a(); }"},
     [["common/kv/a", "common/kv/b"]]),
    ("two files of one noun", {"kv/a.h": "", "kv/a.c": "void b(void); void a(void) { b(); }", "kv/a_later.c": "void a(void); void b(void) { a(); }"}, []),
    ("a verb with a header", {"kv/a.h": "", "kv/a.c": "void b(void); void a(void) { b(); }", "kv/a_later.h": "",
                              "kv/a_later.c": "void a(void); void b(void) { a(); }"}, [["common/kv/a", "common/kv/a_later"]]),
    ("an address handed over", {"kv/a.h": "", "kv/a.c": "void b(void (*)(void)); void on(void) {} void a(void) { b(on); }", "kv/b.h": "",
                                "kv/b.c": "void on(void); void b(void (*f)(void)) { f == on ? f() : 0; }"}, [["common/kv/a", "common/kv/b"]]),
)


def self_test():
    for name, files, wanted in CASES:
        with tempfile.TemporaryDirectory() as folder:
            root, objects = pathlib.Path(folder), {}
            for path, text in files.items():
                source = root / "common" / path
                source.parent.mkdir(parents=True, exist_ok=True)
                source.write_text(text + "\n")
                if path.endswith(".c"):
                    subprocess.run(["cc", "-c", "-o", f"{source}.o", source], check=True)
                    objects[f"common/{path}"] = pathlib.Path(f"{source}.o")
            arrows = arrows_of(symbols_of(objects), root)
            found = circles(arrows)
            assert found == wanted, f"{name}: found {found} in place of {wanted}"
            for circle in found:
                assert len(list(describe(circle, arrows, root))) > len(circle), f"{name}: an arrow has no witness"


def main():
    self_test()
    root = pathlib.Path(__file__).resolve().parents[2]
    build = pathlib.Path(os.environ.get("LONGHAUL_BUILD") or root / "build")
    objects = objects_of(build, root)
    stale = [source for source, path in objects.items() if not path.is_file() or path.stat().st_mtime < (root / source).stat().st_mtime]
    if stale or not objects:
        print(f"{build} is older than {stale[0] if stale else 'all sources'}: build first")
        return 1
    arrows = arrows_of(symbols_of(objects), root)
    found = [circle for circle in circles(arrows) if len(sys.argv) < 2 or any(noun.startswith(sys.argv[1]) for noun in circle)]
    for circle in found:
        print("\n".join(describe(circle, arrows, root)))
    print(f"{len(objects)} files, {len(arrows)} nouns, {len(found)} circles")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
