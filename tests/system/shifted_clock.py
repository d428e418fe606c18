"""A wall clock that is wrong: a library before the programs' own shifts what time(2) says, by seconds that change while they run."""

import mmap
import pathlib
import shutil
import struct
import subprocess
import unittest

DAY_S = 86400
SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
static volatile long *shift; /* mapped before the sandbox is there */
__attribute__((constructor)) static void map(void) {
    int file = open(getenv("CLOCK_SHIFT_FILE"), O_RDONLY);
    shift = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
}
time_t time(time_t *out) {
    time_t (*real)(time_t *) = dlsym(RTLD_NEXT, "time");
    time_t now = real(NULL) + (shift ? *shift : 0);
    if (out)
        *out = now;
    return now;
}
"""


class ShiftedClock:
    """environment: words for env(1), before a command whose clock it is to be."""

    def __init__(self, folder, name="clock"):
        if not shutil.which("cc"):
            raise unittest.SkipTest("no compiler")
        folder = pathlib.Path(folder)
        source, library, shift = folder / f"{name}.c", folder / f"{name}.so", folder / f"{name}.shift"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        shift.write_bytes(bytes(8))
        self.environment = [f"LD_PRELOAD={library}", f"CLOCK_SHIFT_FILE={shift}"]
        with open(shift, "r+b") as file:
            self.shift = mmap.mmap(file.fileno(), 8)

    def set(self, seconds):
        """Ahead, or behind below 0."""
        self.shift[:] = struct.pack("=q", seconds)
        return self
