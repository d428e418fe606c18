"""The README's list of flags is what the programs say of themselves. `test_readme.py --write` brings it up to date."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent
BEGIN, END = "<!-- flags:", "<!-- end of flags -->"


def flags():
    build = pathlib.Path(os.environ.get("LONGHAUL_BUILD", ROOT / "build"))
    text = "\n\n## Flags\n"
    for command in ("longhaul-gateway", "longhaul-gateway key NAME", "longhaul-gateway trace REQUEST-ID", "longhaul-worker"):
        program, *words = command.split()
        out = subprocess.run([build / program, *words, "--help=markdown"], check=True, capture_output=True, text=True).stdout
        text += f"\n### {command}\n\n{out.strip()}\n"
    return text + "\n"


def main():
    readme = ROOT / "README.md"
    text = readme.read_text()
    begin = text.index("-->", text.index(BEGIN)) + 3
    wanted = text[:begin] + flags() + text[text.index(END) :]
    if "--write" in sys.argv:
        readme.write_text(wanted)
    elif wanted != text:
        print("README.md does not list the programs' flags as they are: run tests/style/test_readme.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
