"""What shells offer behind a program's name, each made of what the program says with --help=json."""
import re

import flag_documents

# ---- bash ------------------------------------------------------------------------------------------------------------------------


def completes(option):
    """What bash offers for its value: words, "-f" for files, "-d" for folders, "" for nothing."""
    if option["kind"] == "choice":
        return option["value"].replace("|", " ")
    return {"PATH": "-f", "FILE": "-f", "DIR": "-d"}.get(option["value"], "")


def bash(name, commands):
    function = "_" + name.replace("-", "_")
    words = sorted(words[0] for words, _ in commands if words)
    cases, flags_of = "", {}
    for command, described in commands:
        command = command[0] if command else ""
        flags = [f"--{option['name']}" for option in described["options"]]
        cases += f"    '{command}') flags='{' '.join([*flags, '--help', '--version'])}' ;;\n"
        for option in described["options"]:
            if option["kind"] != "flag":
                flags_of.setdefault(completes(option), []).append(f"'{command} --{option['name']}'")
    cases += f"    'help') flags='{' '.join(words)}' ;;\n"
    values = "".join(f"    {'|'.join(flags)}) values='{offered}' ;;\n" for offered, flags in sorted(flags_of.items()))
    words = sorted([*words, "help"])
    return f"""# Completion of bash for {name}. {flag_documents.WRITTEN_BY}
{function}() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} flag=${{COMP_WORDS[COMP_CWORD - 1]}} command='' flags='' values=' ' glued=''
    # Where = breaks words, "--name=VALUE" comes as three of them.
    if [[ $word == = ]]; then
        word=
    elif [[ $flag == = ]]; then
        flag=${{COMP_WORDS[COMP_CWORD - 2]}}
    elif [[ $word == --*=* ]]; then
        flag=${{word%%=*}} glued=${{word%%=*}}= word=${{word#*=}}
    fi
    if ((COMP_CWORD > 1)); then
        case ${{COMP_WORDS[1]}} in
        {'|'.join(words)}) command=${{COMP_WORDS[1]}} ;;
        esac
    fi
    case $command in
{cases}    esac
    case "$command $flag" in
{values}    esac
    case $values in
    ' ')
        ((COMP_CWORD > 1)) || flags+=' {' '.join(words)}'
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word")
        ;;
    -[df])
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen "$values" -- "$word")
        ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$values" -P "$glued" -- "$word") ;;
    esac
}}
complete -F {function} {name}
"""


# ---- zsh and fish: with what each option is for ----------------------------------------------------------------------------------


def brief(text):
    """The first clause of a help text, cut at a word where it is long."""
    clause = re.split(r"[.;:] |, such as | \(", text)[0].rstrip(".,;:")
    return clause if len(clause) <= 80 else clause[:80].rsplit(" ", 1)[0] + " ..."


def quoted(text):
    """One word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_text(text):
    """Within a specification of _arguments."""
    return re.sub(r"([\\[\]:])", r"\\\1", text)


def zsh_option(option):
    text = f"[{zsh_text(brief(option['help']))}]"
    if option["kind"] == "flag":
        return quoted(f"--{option['name']}{text}")
    offered = completes(option)
    action = {"-f": "_files", "-d": "_files -/", "": " "}.get(offered, f"({offered})")
    return quoted(f"--{option['name']}={text}:{zsh_text(option['value'])}:{action}")


ALWAYS = ("'(- *)--help[print what there is to say]'", "'(- *)--version[print the version]'")


def zsh(name, commands):
    listed = "".join(f"        {quoted(words[0] + ':' + brief(described['list']))}\n" for words, described in commands if words)
    cases = ""
    for words, described in commands:
        options = " \\\n            ".join([*map(zsh_option, described["options"]), *ALWAYS])
        cases += f"    {words[0] if words else '*'})\n        _arguments \\\n            {options} \\\n            '*: :_files' ;;\n"
    main, others = cases[:cases.index(" ;;\n") + 4], cases[cases.index(" ;;\n") + 4:]  # that of no command stands last
    return f"""#compdef {name}
# Completion of zsh for {name}. {flag_documents.WRITTEN_BY}
_{name.replace("-", "_")}() {{
    local command=${{words[2]}}
    local -a commands=(
{listed}        'help:tells more of a command'
    )
    if ((CURRENT == 2)) && [[ $command != -* ]]; then
        _describe -t commands command commands
        return
    fi
    if [[ $command != -* ]]; then
        shift words
        ((CURRENT--))
    fi
    case $command in
    help) _describe -t commands command commands ;;
{others}{main}    esac
}}
_{name.replace("-", "_")} "$@"
"""


def fish_option(name, option, condition):
    offered = completes(option)
    value = "" if option["kind"] == "flag" else {"-f": " -r -F", "-d": " -x -a '(__fish_complete_directories)'", "": " -x"}.get(offered, f" -x -a {quoted(offered)}")
    return f"complete -c {name} -n {quoted(condition)} -l {option['name']}{value} -d {quoted(brief(option['help']))}\n"


def fish(name, commands):
    words = [words[0] for words, _ in commands if words]
    no_command = f"not __fish_seen_subcommand_from {' '.join([*words, 'help'])}"
    page = f"# Completion of fish for {name}. {flag_documents.WRITTEN_BY}\ncomplete -c {name} -f\n"
    for command, described in commands:
        condition = f"__fish_seen_subcommand_from {command[0]}" if command else no_command
        if command:
            page += f"complete -c {name} -n __fish_use_subcommand -a {command[0]} -d {quoted(brief(described['list']))}\n"
        for option in described["options"]:
            page += fish_option(name, option, condition)
    page += f"complete -c {name} -n __fish_use_subcommand -a help -d 'tells more of a command'\n"
    page += f"complete -c {name} -n '__fish_seen_subcommand_from help' -a {quoted(' '.join(words))}\n"
    return page + f"complete -c {name} -l help -d 'print what there is to say'\ncomplete -c {name} -l version -d 'print the version'\n"
