"""Runs ctest and says how it goes: a line when all tests of a room are over, one for each test that takes long, everything that a failed one
said, how many were skipped, what processors did, and at the end ctest's own summary. Where nothing but skips is left it fails.

    tests/progress.py WORDS FOR CTEST, --test-dir among them"""
import collections
import pathlib
import re
import resource
import subprocess
import sys

LONG_S = 10
RESULT = re.compile(r"\s*\d+/\d+ Test\s+#\d+: (\S+) \.+\s*(.*?)\s+([\d.]+) sec")
QUIET = re.compile(r"\s*Start\s+\d+: |Test project |Internal ctest changing |\s*$")
SUMMARY = re.compile(r"\d+% tests passed")
# cmocka's count of a program, and ours of a script.
SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) test|^\d+ passed, \d+ failed, ([1-9]\d*) skipped$", re.M)


def names(words):
    listed = subprocess.run(["ctest", "-N", *words], check=True, capture_output=True, text=True).stdout
    return re.findall(r"^\s*Test\s+#\d+: (\S+)", listed, re.M)


def room_of(name):
    return name.split("/")[0]


class Progress:
    def __init__(self, names):
        self.waiting = collections.Counter(map(room_of, names))
        self.count, self.seconds = collections.Counter(self.waiting), collections.Counter()
        self.passed, self.skipped, self.summary, self.is_over = 0, [], [], False

    def result(self, name, status, seconds):
        room = room_of(name)
        self.waiting[room] -= 1
        self.seconds[room] += seconds
        self.passed += status == "Passed"
        if "Skipped" in status:
            self.skipped.append(name)
        elif status != "Passed":
            print(f"  FAILED: {name} {status.strip('* ')}, {seconds:.0f} s")
        elif seconds >= LONG_S:
            print(f"  {name}, {seconds:.0f} s")
        if not self.waiting[room]:
            print(f"  {room}: {self.count[room]} tests, {self.seconds[room]:.0f} s")

    def line(self, line):
        if found := RESULT.match(line):
            self.result(found[1], found[2], float(found[3]))
        elif self.is_over or SUMMARY.match(line):
            self.is_over = True
            self.summary.append(line)
        elif not QUIET.match(line):
            print(line, end="")
        sys.stdout.flush()


def main():
    words = sys.argv[1:]
    progress = Progress(names(words))
    with subprocess.Popen(["ctest", "--output-on-failure", *words], stdout=subprocess.PIPE, text=True, errors="replace") as ctest:
        for line in ctest.stdout:
            progress.line(line)
    log = pathlib.Path(words[words.index("--test-dir") + 1]) / "Testing" / "Temporary" / "LastTest.log"
    parts = sum(int(a or b) for a, b in SKIPPED.findall(log.read_text(errors="replace"))) if progress.count else 0
    print(f"skipped: {len(progress.skipped)} programs{''.join(' ' + name for name in progress.skipped)}, and {parts} tests of others")
    # Of all that ended and was waited for; not of what a container's engine does.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"of processors: {used.ru_utime:.0f} + {used.ru_stime:.0f} s\n")
    print("".join(progress.summary).strip(), flush=True)
    return ctest.returncode or not progress.passed


if __name__ == "__main__":
    sys.exit(main())
