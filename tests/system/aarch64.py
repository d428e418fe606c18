"""Programs that were built for aarch64 (cmake/aarch64-linux-gnu.cmake), run here under qemu-aarch64."""

import os
import pathlib

from programs import need_file


def aarch64_program(name):
    """The command that runs longhaul-... of the build folder in LONGHAUL_AARCH64_BUILD; it has the emulator and the sysroot in its cache."""
    folder = os.environ.get("LONGHAUL_AARCH64_BUILD")
    build = pathlib.Path(need_file(folder, "no build for aarch64: LONGHAUL_AARCH64_BUILD names no folder (tests/run makes one)"))
    cache = dict(line.split("=", 1) for line in (build / "CMakeCache.txt").read_text().splitlines() if "=" in line)
    emulator = need_file(cache.get("QEMU_AARCH64:FILEPATH"), "no qemu-aarch64 (package qemu-user)")
    return [emulator, "-L", cache["LONGHAUL_SYSROOT:PATH"], need_file(build / name, f"{name} is not built for aarch64")]
