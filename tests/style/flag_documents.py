"""Documents of a program's options, each made of what the program says with --help=json, so that none of them can drift: a table in Markdown,
a manual page (mdoc), and a sample of the configuration file."""
import re
import textwrap

WRITTEN_BY = "Written by tests/style/test_flags.py --write from the programs' own --help=json."
DATE = "November 23, 2026"  # of the manual pages; the programs' version stands beside it
ABOUT_FILES = ("config", "check-config", "print-config")
ENVIRONMENT = "LONGHAUL_"


def variable(option):
    return ENVIRONMENT + option["name"].upper().replace("-", "_")


def remark(option):
    """What follows the meaning: " (default 4; 1..1024)", or nothing, as in --help."""
    bounds = ""
    if "minimum" in option:
        bounds = f"; at least {option['minimum']}" if option["maximum"] is None else f"; {option['minimum']}..{option['maximum']}"
    if option["kind"] == "flag" or option["default"] == "":
        return ""
    return f" (required{bounds})" if option["default"] is None else f" (default {option['default']}{bounds})"


# ---- docs/FLAGS.md ---------------------------------------------------------------------------------------------------------------


def markdown(title, described):
    def cell(text):
        return text.replace("|", "\\|")
    rows = (f"| `--{option['name']}{' ' if option['value'] else ''}{cell(option['value'])}` | {cell(option['help'] + remark(option))} |\n"
            for option in described["options"])
    return f"\n## {title}\n\n| Flag | Meaning |\n| --- | --- |\n{''.join(rows)}"


# ---- Manual pages ----------------------------------------------------------------------------------------------------------------


def roff(text):
    """Text lines of mdoc: a sentence a line, nothing that roff would take for a request."""
    text = text.replace("\\", "\\e").replace("--", "\\-\\-")
    lines = []
    for sentence in re.split(r"(?<=[.:;?]) (?=[A-Z])", text):
        lines += textwrap.wrap(sentence, 78, break_long_words=False, break_on_hyphens=False)
    return "\n".join("\\&" + line if line[0] in ".'" else line for line in lines) + "\n"


def argument(text):
    """Of a macro line: one word that is no macro's name."""
    return '"' + re.sub(r"^([A-Z][a-z])$", r"\\&\1", text.replace('"', '\\(dq')) + '"'


def mdoc_options(options):
    items = "".join(f".It Fl \\-{option['name']}{' Ar ' + argument(option['value']) if option['value'] else ''}\n{roff(option['help'] + remark(option))}"
                    for option in options)
    return f".Bl -tag -width Ds\n{items}.El\n"


def as_sentence(text):
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


CONFIGURATION = """Each option may stand in the YAML file of --config, by its name without dashes, as may a list where several are taken:
{sample}
What a flag says counts first, then the environment, then the file, then the default. The file is read at the start alone. Names that \
there are not, names given twice and values that are none are told with their line, all of them, and the program does not start; \
--check-config does no more than that, and reads the files that the options name as well. --print-config prints what is in effect, and \
where each value comes from."""

EXIT_STATUS = "0 after an end that was asked for, 1 where something failed, 2 where the command line, the environment or the configuration is wrong."


def synopsis(commands):
    for words, described in commands:
        if words or described["options"]:
            yield ".Nm\n" + (f".Cm {words[0]}{' Ar ' + argument(' '.join(words[1:])) if words[1:] else ''}\n" if words else "")
            if described["options"]:
                yield ".Op Ar options\n"


def mdoc(name, commands, others, sample):
    """`commands`: what stands behind the program's name, with what is told of it; the first one of no words. `sample`: lines of a configuration
    file, [] where the program reads none."""
    main = commands[0][1]
    page = f'.\\" {WRITTEN_BY}\n.Dd {DATE}\n.Dt {name.upper()} 1\n.Os Longhaul {main["version"]}\n'
    page += f".Sh NAME\n.Nm {name}\n.Nd {roff(main['summary'][0].lower() + re.split('[.] ', main['summary'])[0][1:]).strip()}\n"
    page += f".Sh SYNOPSIS\n{''.join(synopsis(commands))}.Sh DESCRIPTION\n{roff(as_sentence(main['summary']))}"
    if main["options"]:
        page += f".Pp\nThe options are:\n{mdoc_options(main['options'])}"
    if commands[1:]:
        page += ".Sh COMMANDS\n" + roff("Also: --help, in short -h, and help COMMAND.")
    for words, described in commands[1:]:
        page += f".Ss {name} {' '.join(words)}\n{roff(as_sentence(described['summary']))}"
        if described["options"] == main["options"]:
            page += "The options are those above.\n"
        elif described["options"]:
            page += mdoc_options(described["options"])
        page += f".Pp\nExample:\n.Dl {roff(described['example']).strip()}\n" if described["example"] else ""
    if sample:
        before, after = CONFIGURATION.split("{sample}")
        page += f".Sh CONFIGURATION FILE\n{roff(before.strip())}.Bd -literal -offset indent\n" + "\n".join(sample)
        page += f"\n.Ed\n.Pp\n{roff(after.strip())}"
    option = next(option for _, described in commands for option in described["options"] if option["name"] not in ABOUT_FILES)
    page += ".Sh ENVIRONMENT\n" + roff(f"Each option may be given as a variable: {ENVIRONMENT} and its name in capitals, dashes as underscores, "
                                       f"as {variable(option)} for --{option['name']}. An empty one counts as none.")
    page += f".Sh EXIT STATUS\n{roff(EXIT_STATUS)}.Sh SEE ALSO\n"
    return page + " ,\n".join(f".Xr {other} 1" for other in others) + "\n"


# ---- Sample of the configuration file --------------------------------------------------------------------------------------------


def yaml_value(option):
    default = option["default"]
    if default is None:
        return option["value"]
    if option["kind"] == "flag":
        return "true" if default == "1" else "false"
    return default if re.fullmatch(r"[\w./][\w./:,+-]*", default) else '"' + default.replace("\\", "\\\\").replace('"', '\\"') + '"'


def yaml_sample(name, described):
    """Each option with its default, commented out: "# " begins what is for people, "#" alone a line to be used."""
    head = (f"Options of {name}, for {name} --config FILE: each with its default. Take the # away before those that are to differ. Flags and the "
            f"environment (LONGHAUL_<NAME>) go before this file; {name} --config FILE --check-config says what is wrong with it.")
    text = "".join(f"# {line}\n" for line in textwrap.wrap(head, 98))
    for option in described["options"]:
        if option["name"] in ABOUT_FILES:
            continue
        bounds = remark({**option, "default": ""} if option["default"] is not None else option)
        if "minimum" in option and option["default"] is not None:
            bounds = f" ({remark(option).split('; ', 1)[1]}"
        choices = f" ({option['value'].replace('|', ', ')})" if option["kind"] == "choice" else ""
        lines = textwrap.wrap(option["help"] + bounds + choices, 98, break_long_words=False, break_on_hyphens=False)
        text += "\n" + "".join(f"# {line}\n" for line in lines) + f"#{option['name']}: {yaml_value(option)}\n"
    return text
