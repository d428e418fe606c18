"""The blocks of a document tried on machines, one after the other, as a reader would."""

import re
import shutil
import time

# Where deploy/fetch-model of a reader's own keeps what it has fetched.
MODELS = ".local/share/longhaul/models"
# As the documents call two machines.
ADDRESSES = {"home": "192.0.2.1", "office": "198.51.100.7"}
# What a block may need, as root of a Debian gets it.
NEEDS = {
    "docker": "command -v dockerd || (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq docker.io docker-compose curl)",
}
# Programs that a section has left running, by process.
RUNNING = "/tmp/newcomer-running"
# What goes on running shows by then what it must.
PATIENCE_S = 180


class Wrong(AssertionError):
    """A block did not do what the document says."""


def home_of(user):
    return "/root" if user == "root" else f"/home/{user}"


def in_background(commands, beginning, log):
    """The commands with those that begin so started beside the others, and their output in a file. A reader sees a program say that it has started
    before he types the next command in another terminal."""
    whole = re.split(r"(?<!\\)\n", commands)
    started = f"""touch {log}; before=$(wc -l <{log})
        setsid %s >>{log} 2>&1 </dev/null &
        echo $! >>{RUNNING}
        for tenth in $(seq 300); do tail -n +$((before + 1)) {log} | grep -qE ' (listening|started) ' && break; sleep 0.1; done"""
    return "\n".join(started % one if one.startswith(beginning) else one for one in whole)


def end_background(machine):
    """As a reader's control-C in each terminal does; and waits."""
    status, said = machine.run(f"""touch {RUNNING}; for pid in $(cat {RUNNING}); do kill "$pid" || true; done 2>/dev/null
        for pid in $(cat {RUNNING}); do while [ -e "/proc/$pid" ]; do sleep 0.1; done; done; rm {RUNNING}""", timeout_s=60)
    if status:
        raise Wrong(f"what runs on {machine.name} cannot be ended: {said}")


def found_in(said, expression, block):
    found = re.search(expression, said)
    if not found:
        raise Wrong(f"nothing before line {block.line} shows {expression}")
    return found[1]


def commands_of(block, said, machines):
    """Its text, with what stands for placeholders put in: an address of the documents for a machine's own; `said` is the output so far."""
    text = block.commands
    for placeholder, expression in block.replacements:
        text = text.replace(placeholder, found_in(said, expression, block))
    text = "\n".join(part for part in (block.before, text.rstrip("\n"), block.after) if part)
    for name, address in ADDRESSES.items():
        if name in machines:
            text = text.replace(address, machines[name].address)
    return text + "\n"


def lacking(block, said):
    return [expression for expression in block.shows if not re.search(expression, said)]


def prepare(block, machines, folder, user):
    """What is there before a reader begins."""
    machine = machines[block.machine]
    if block.needs:
        status, said = machine.run(NEEDS[block.needs])
        if status:
            raise Wrong(f"{machine.suite} has no {block.needs}: {said[-4000:]}")
    if block.brings:
        here, there = (one.folder / folder.lstrip("/") for one in (machines["home"], machine))
        for file in here.glob(block.brings):
            target = there / file.relative_to(here)
            shutil.copy(file, target)
            shutil.chown(target, (there.stat().st_uid), (there.stat().st_gid))


def try_block(block, text, machine, user, folder, echo, typed=None):
    """(exit status, output), when it has shown what it must, or will not."""
    if block.background is None:
        return machine.run(text, user, folder, echo=echo, typed=typed)
    log = f"/tmp/newcomer-{block.line}.log"
    status, said = machine.run(in_background(text, block.background, log), user, folder, echo=echo)
    until = time.monotonic() + PATIENCE_S
    while True:
        _, logged = machine.run(f"cat {log}", user)
        if status or not lacking(block, said + logged) or time.monotonic() > until:
            return status, said + logged
        time.sleep(1)


def try_blocks(machines, found, document, user="root", folder="/root", say=print, echo=None):
    """Raises Wrong for the first that does not show what it must. machines: by name. say: is given what is done; echo: each line of output. What
    runs in the background is ended."""
    said, used = "", set()
    for block in found:
        where = f"{document}:{block.line}"
        if block.reason:
            say(f"-- {where} is not run: {block.reason}")
            continue
        machine = machines[block.machine]
        used.add(machine)
        prepare(block, machines, folder, user)
        text = commands_of(block, said, machines)
        typed = found_in(said, block.types, block) + "\n" if block.types else None
        say(f"-- {where} ({block.machine}): {text.strip()}")
        begin = time.monotonic()
        status, shown = try_block(block, text, machine, user, folder, echo, typed)
        if status:
            raise Wrong(f"{where} on {machine.suite}: exit status {status}\n{shown[-4000:]}")
        for expression in lacking(block, shown):
            raise Wrong(f"{where} on {machine.suite} did not show {expression!r}\n{shown[-4000:]}")
        said += shown
        say(f"-- {where} passed in {time.monotonic() - begin:.0f} s")
    for machine in used:
        end_background(machine)


def lend_models(machine, user, models):
    """What is on this machine need not be fetched again; without it the commands fetch it themselves."""
    folder = machine.folder / home_of(user).lstrip("/") / MODELS
    folder.mkdir(parents=True, exist_ok=True)
    for model in models.glob("SmolLM2*.gguf"):
        shutil.copy(model, folder)
    status, said = machine.run(f"chown -R {user}: {home_of(user)}/.local")
    if status:
        raise RuntimeError(said)
