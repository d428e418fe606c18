"""The tables of fields in common/protocol/CONTROL.md are those by which both programs write and read reports and replies.
`test_control_tables.py --write` brings them up to date."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent
BUILD = pathlib.Path(os.environ.get("LONGHAUL_BUILD", ROOT / "build"))
DOCUMENT = ROOT / "common/protocol/CONTROL.md"
TABLES = ("report", "reply")


def table(name):
    program = next(path for path in (BUILD / "tests/control_tables", BUILD / "control_tables") if path.exists())
    return subprocess.run([program, name], check=True, capture_output=True, text=True).stdout


def with_table(text, name, rows):
    """The document with these rows between its marks; it must have them once."""
    marks = re.compile(rf"(<!-- fields of a {name}[^>]*-->\n).*?(<!-- end -->\n)", re.S)
    changed, count = marks.subn(lambda found: found[1] + rows + found[2], text)
    if count != 1:
        raise SystemExit(f"{DOCUMENT.relative_to(ROOT)} has {count} places for the fields of a {name}, not one")
    return changed


def main():
    text = DOCUMENT.read_text()
    wanted = text
    for name in TABLES:
        wanted = with_table(wanted, name, table(name))
    if "--write" in sys.argv:
        DOCUMENT.write_text(wanted)
    elif wanted != text:
        print(f"{DOCUMENT.relative_to(ROOT)} lists other fields than the programs have: run tests/style/test_control_tables.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
