"""C, C++ and CUDA are written as the formatter writes them (.clang-format), within 100 columns, comments too. `test_format.py --write` formats the tree."""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent.parent
COLUMNS_MAX = 100


def sources():
    for room in ("common", "gateway", "kernels", "link", "worker", "tests", "cmake"):
        yield from sorted(path for path in (ROOT / room).rglob("*") if path.suffix in (".c", ".h", ".cpp", ".cu", ".cuh"))


def formatter(paths, *options):
    command = [pathlib.Path(sys.executable).parent / "clang-format", f"--style=file:{ROOT / '.clang-format'}", *options, *paths]
    return subprocess.run(command, capture_output=True, text=True)


def problems(paths):
    """Pairs of a path and what is wrong with it. One process reads all files: to start it takes longer than to format a file."""
    run = formatter(paths, "--dry-run", "-Werror", "--ferror-limit=0")
    other = set(re.findall(r"^(.+?):\d+:\d+: error: code should be clang-formatted", run.stderr, re.MULTILINE))
    assert bool(other) == bool(run.returncode), run.stderr
    for path in paths:
        if str(path) in other:
            yield path, "is not as the formatter writes it: run tests/style/test_format.py --write"
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > COLUMNS_MAX:
                yield path, f"line {number} is longer than {COLUMNS_MAX} columns"


PLANTED = {
    "well_written.c": "int x;\n",
    "stray_space.c": "int  x;\n",
    "braces.c": "int f(int a) {\n    if (a) {\n        return 1;\n    }\n    return 0;\n}\n",
    "long_comment.c": f"/* {'x' * 120} */\n",
}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / name for name in PLANTED]
        for path in paths:
            path.write_text(PLANTED[path.name])
        found = {path.name for path, _ in problems(paths)}
    assert found == set(PLANTED) - {"well_written.c"}, f"of the planted files only {found} are found"


def main():
    paths = list(sources())
    if "--write" in sys.argv:
        formatter(paths, "-i").check_returncode()
    self_test()
    found = [f"{path.relative_to(ROOT)}: {problem}" for path, problem in problems(paths)]
    print("\n".join(found))
    print(f"{len(paths)} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
