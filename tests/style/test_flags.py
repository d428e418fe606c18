"""What is written of the programs' options is what the programs say of them: docs/FLAGS.md, the manual pages in docs/man, the completions of
bash, zsh and fish in deploy/completions and the sample files in deploy/config. `test_flags.py --write` brings all of them up to date. They are in the tree, and not
made by a build, so that building for another processor, which cannot run the programs, installs them too."""
import json
import os
import pathlib
import subprocess
import sys

import completions
import flag_documents

ROOT = pathlib.Path(__file__).parent.parent.parent
BUILD = pathlib.Path(os.environ.get("LONGHAUL_BUILD", ROOT / "build"))

# Each program, and a few lines of a configuration file where it reads one.
PROGRAMS = {
    "longhaul-gateway": ["model: /srv/models/model.gguf", "listen: 127.0.0.1:8080", "sites: [home, office]"],
    "longhaul-worker": ["site: office", "kv-bytes: 2G"],
    "longhaul-link": [],
}

FLAGS_HEAD = f"""# Flags

{flag_documents.WRITTEN_BY} Each flag may also be given as an environment variable:
`LONGHAUL_` and its name in capitals, dashes as underscores; gateway and worker take it from a YAML file, too (`--config`), by its name
without dashes. A flag counts before the environment, and that before the file. An option of a command, such as `token`, is in no file.
"""


def commands_of(program):
    """[(words behind the program's name, what it says of its options)], without words first."""
    told = json.loads(subprocess.run([BUILD / program, "--help=json"], check=True, capture_output=True, text=True).stdout)
    return [([], told), *(([command["name"], *command["itself"]["arguments"].split()], {**command["itself"], "list": command["summary"]})
                          for command in told["commands"])]


def flag_tables(program, commands):
    """Of the program, and of those of its commands that have options of their own."""
    for words, described in commands:
        if described["options"] and not (words and described["options"] == commands[0][1]["options"]):
            yield flag_documents.markdown(" ".join([program, *words]), described)


def documents():
    """{path: text}"""
    told = {program: commands_of(program) for program in PROGRAMS}
    found = {"docs/FLAGS.md": FLAGS_HEAD + "".join(table for program, commands in told.items() for table in flag_tables(program, commands))}
    for program, commands in told.items():
        others = sorted(set(PROGRAMS) - {program})
        found[f"docs/man/{program}.1"] = flag_documents.mdoc(program, commands, others, PROGRAMS[program])
        found[f"deploy/completions/{program}"] = completions.bash(program, commands)
        found[f"deploy/completions/_{program}"] = completions.zsh(program, commands)
        found[f"deploy/completions/{program}.fish"] = completions.fish(program, commands)
        if PROGRAMS[program]:
            found[f"deploy/config/{program.removeprefix('longhaul-')}.yaml"] = flag_documents.yaml_sample(program, commands[0][1])
    return found


def main():
    wrong = 0
    for path, text in documents().items():
        if "--write" in sys.argv:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text)
        elif not (ROOT / path).is_file() or (ROOT / path).read_text() != text:
            print(f"{path} does not say of the programs' options what they are: run tests/style/test_flags.py --write")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
