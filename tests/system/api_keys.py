"""The gateway's file of API keys, as its operator writes it."""

import hashlib
import os


def key_line(name, key, *words):
    return " ".join((name, "sha256:" + hashlib.sha256(key.encode()).hexdigest(), *words)) + "\n"


def write_private(path, text):
    """Whole or not at all, and nobody else's to read."""
    aside = f"{path}.new"
    with open(aside, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
    os.rename(aside, path)
    return str(path)
