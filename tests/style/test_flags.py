"""docs/FLAGS.md is what the programs say of themselves. `test_flags.py --write` brings it up to date."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent
FLAGS = ROOT / "docs" / "FLAGS.md"


def flags():
    build = pathlib.Path(os.environ.get("LONGHAUL_BUILD", ROOT / "build"))
    text = """# Flags

Written by `tests/style/test_flags.py --write` from the programs' own `--help=markdown`. Each flag may also be given as an
environment variable: `LONGHAUL_` and its name in capitals, dashes as underscores. A flag counts before the environment.
"""
    for command in ("longhaul-gateway", "longhaul-gateway key NAME", "longhaul-gateway trace REQUEST-ID", "longhaul-worker"):
        program, *words = command.split()
        out = subprocess.run([build / program, *words, "--help=markdown"], check=True, capture_output=True, text=True).stdout
        text += f"\n## {command}\n\n{out.strip()}\n"
    return text


def main():
    if "--write" in sys.argv:
        FLAGS.write_text(flags())
    elif flags() != FLAGS.read_text():
        print("docs/FLAGS.md does not list the programs' flags as they are: run tests/style/test_flags.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
