"""The blocks of a document tried on a machine, one after the other, as a reader would."""

import re
import shutil
import time

# Where deploy/fetch-model of a reader's own keeps what it has fetched.
MODELS = ".cache/longhaul/models"


class Wrong(AssertionError):
    """A block did not do what the document says."""


def home_of(user):
    return "/root" if user == "root" else f"/home/{user}"


def commands_of(block, said):
    """Its text, with what stands for placeholders put in; `said` is the output of the block before."""
    text = block.commands
    for placeholder, expression in block.replacements:
        found = re.search(expression, said)
        if not found:
            raise Wrong(f"nothing before line {block.line} shows {expression}")
        text = text.replace(placeholder, found[1])
    return text


def try_blocks(machine, found, document, user="root", folder="/root", say=print, echo=None):
    """Raises Wrong for the first that does not show what it must. say: is given what is done; echo: each line of output."""
    said = ""
    for block in found:
        if block.reason:
            say(f"-- {document}:{block.line} is not run: {block.reason}")
            continue
        text = commands_of(block, said)
        say(f"-- {document}:{block.line}: {text.strip()}")
        begin = time.monotonic()
        status, said = machine.run(text, user, folder, echo=echo)
        if status:
            raise Wrong(f"{document}:{block.line} on {machine.suite}: exit status {status}\n{said[-4000:]}")
        for expression in block.shows:
            if not re.search(expression, said):
                raise Wrong(f"{document}:{block.line} on {machine.suite} did not show {expression!r}\n{said[-4000:]}")
        say(f"-- {document}:{block.line} passed in {time.monotonic() - begin:.0f} s")


def lend_models(machine, user, models):
    """What is on this machine need not be fetched again; without it the commands fetch it themselves."""
    folder = machine.folder / home_of(user).lstrip("/") / MODELS
    folder.mkdir(parents=True, exist_ok=True)
    for model in models.glob("SmolLM2*.gguf"):
        shutil.copy(model, folder)
    status, said = machine.run(f"chown -R {user}: {home_of(user)}/.cache")
    if status:
        raise RuntimeError(said)
