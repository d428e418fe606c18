"""What cmake --install puts on a machine: programs, manual pages that mandoc has nothing to say of, samples, and completions, in a real bash."""

import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from programs import PATIENCE_S, build_folder, lacking, run_tests

PROGRAMS = ("gateway", "worker", "link")


def install(folder, *options):
    subprocess.run(["cmake", "--install", build_folder(), "--prefix", folder, *options], check=True, stdout=subprocess.DEVNULL)
    return {path.relative_to(folder).as_posix() for path in pathlib.Path(folder).rglob("*") if path.is_file()}


def files_of(program):
    found = {f"bin/longhaul-{program}", f"share/man/man1/longhaul-{program}.1", f"share/bash-completion/completions/longhaul-{program}",
             f"share/zsh/site-functions/_longhaul-{program}", f"share/fish/vendor_completions.d/longhaul-{program}.fish"}
    return found | ({f"share/doc/longhaul/examples/{program}.yaml"} if program != "link" else set())


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = cls.temporary.name
        cls.files = install(cls.folder)


class Installed(Folder):
    def test_every_file_is_in_its_place(self):
        self.assertLessEqual(set().union(*map(files_of, PROGRAMS)), self.files)

    def test_a_component_is_one_program(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertLessEqual(files_of("worker"), install(folder, "--component", "worker"))
            self.assertFalse(list(pathlib.Path(folder).rglob("*gateway*")))

    def test_manual_pages_are_clean(self):
        if not shutil.which("mandoc"):
            raise lacking("mandoc is not installed")
        pages = sorted(pathlib.Path(self.folder, "share", "man").rglob("*.[1-9]"))
        self.assertEqual([page.name for page in pages if page.suffix == ".8"], ["longhaul-worker-service.8"])
        for page in pages:
            lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
            self.assertEqual((lint.returncode, lint.stdout), (0, ""))
        for program in PROGRAMS:
            page = f"{self.folder}/share/man/man1/longhaul-{program}.1"
            text = subprocess.run(["mandoc", "-T", "ascii", page], check=True, capture_output=True, text=True).stdout
            help_text = subprocess.run([f"{self.folder}/bin/longhaul-{program}", *(["uplink"] if program == "link" else []), "--help"],
                                       check=True, capture_output=True, text=True).stdout
            plain = text.replace("_\b", "")
            plain = "".join(c for i, c in enumerate(plain) if c != "\b" and plain[i + 1:i + 2] != "\b")
            for line in help_text.splitlines():
                if line.startswith("  --") and not line.startswith(("  --help", "  --version")):
                    self.assertIn(line.split()[0], plain)


class Completion(Folder):
    def offered(self, line, wordbreaks=True):
        """What completion offers at the line's end; where = breaks no words, too, as some have it."""
        words = line.replace("=", " = ").split(" ") if wordbreaks else line.split(" ")
        program = words[0]
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_${1//-/_}"; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "--norc", "-c", script, "bash", f"{self.folder}/share/bash-completion/completions/{program}",
                               *(word for i, word in enumerate(words) if word or i == len(words) - 1)],
                              capture_output=True, text=True, cwd=self.work, check=True)
        self.assertEqual(done.stderr, "")
        return sorted(done.stdout.split())

    def setUp(self):
        self.work = tempfile.mkdtemp(dir=self.folder)
        for name in ("model.gguf", "modes", "key.pem"):
            (pathlib.Path(self.work) / name).write_text("")
        (pathlib.Path(self.work) / "models").mkdir()

    def test_what_is_offered(self):
        for line, wanted in (
                ("longhaul-gateway --che", ["--check-config"]),
                ("longhaul-gateway tok", ["token", "tokens"]),
                ("longhaul-gateway help rot", ["rotate-ca"]),
                ("longhaul-gateway token --u", ["--uses"]),
                ("longhaul-gateway --wire ", ["auto", "f16", "f32", "q8"]),
                ("longhaul-gateway --wire f", ["f16", "f32"]),
                ("longhaul-gateway --wire=f", ["f16", "f32"]),
                ("longhaul-gateway --wire=", ["auto", "f16", "f32", "q8"]),
                ("longhaul-gateway trace --part p", ["prompt"]),
                ("longhaul-gateway --strict-params --lis", ["--listen"]),
                ("longhaul-gateway --model mode", ["model.gguf", "models", "modes"]),
                ("longhaul-gateway --model=model.", ["model.gguf"]),
                ("longhaul-gateway key n --from k", ["key.pem"]),
                ("longhaul-gateway --state-dir m", ["models"]),
                ("longhaul-gateway --listen m", []),
                ("longhaul-gateway --workers ", []),
                ("longhaul-worker jo", ["join"]),
                ("longhaul-worker join x y --log-level d", ["debug"]),
                ("longhaul-worker --log-level d", ["debug"]),
                ("longhaul-link up", ["uplink"]),
                ("longhaul-link uplink --link-r", ["--link-rate"])):
            with self.subTest(line):
                self.assertEqual(self.offered(line), wanted)
        self.assertEqual(self.offered("longhaul-gateway --wire=f", wordbreaks=False), ["--wire=f16", "--wire=f32"])

    def test_what_fish_offers(self):
        if not shutil.which("fish"):
            raise lacking("fish is not installed")
        folder = f"{self.folder}/share/fish/vendor_completions.d"
        for line, wanted in (("longhaul-gateway tok", {"token", "tokens"}), ("longhaul-gateway help rot", {"rotate-ca"}),
                             ("longhaul-gateway token --u", {"--uses"}), ("longhaul-gateway --wire ", {"auto", "f16", "f32", "q8"}),
                             ("longhaul-gateway --strict-params --fleet-l", {"--fleet-listen"}), ("longhaul-gateway trace --part p", {"prompt"}),
                             ("longhaul-worker jo", {"join"}), ("longhaul-link uplink --link-r", {"--link-rate"})):
            with self.subTest(line):
                script = f"source {folder}/{line.split()[0]}.fish; complete -C '{line}'"
                done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, cwd=self.work, check=True,
                                      env={**os.environ, "HOME": self.work})
                self.assertEqual(done.stderr, "")
                self.assertEqual({offer.split("\t")[0] for offer in done.stdout.splitlines()}, wanted)

    def test_what_zsh_offers(self):
        """compadd is what all of its completions end in; here it says what it was given."""
        if not shutil.which("zsh"):
            raise lacking("zsh is not installed")
        said = f"{self.work}/offered"
        script = (f"zmodload zsh/zpty; zpty shell zsh -f -i; zpty -w shell \"fpath=({self.folder}/share/zsh/site-functions \\$fpath); autoload -U compinit; "
                  f"compinit -u -D; cd {self.work}; compadd() {{ print -r -- \\$@ >> {said}; builtin compadd \\$@ }}; print rea''dy\"; "
                  "until [[ $out == *ready* ]]; do zpty -r shell part; out+=$part; done; zpty -w -n shell $1$'\\t'; sleep 0.2; "
                  f"for i in {{1..200}}; do zpty -r -t shell part; [[ -s {said} ]] && break; sleep 0.05; done; sleep 0.5")
        for line, wanted in (("longhaul-gateway tok", "token"), ("longhaul-gateway token --us", "--uses"), ("longhaul-link up", "uplink")):
            with self.subTest(line):
                pathlib.Path(said).unlink(missing_ok=True)
                subprocess.run(["zsh", "-f", "-c", script, "zsh", line], capture_output=True, text=True, cwd=self.work, timeout=60,
                               env={**os.environ, "HOME": self.work, "TERM": "dumb"})
                self.assertIn(wanted, pathlib.Path(said).read_text() if os.path.exists(said) else "nothing was offered")

    def test_in_a_terminal(self):
        environment = {"PATH": os.environ["PATH"], "HOME": self.work, "TERM": "dumb", "INPUTRC": "/dev/null", "PS1": "$ ", "HISTFILE": ""}
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.work)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        said = b""

        def read_until(wanted):
            nonlocal said
            deadline = time.monotonic() + PATIENCE_S
            while wanted not in said:
                self.assertLess(time.monotonic(), deadline, f"{wanted} is not in {said}")
                if select.select([terminal], [], [], 1)[0]:
                    said += os.read(terminal, 4096)
            said = b""

        try:
            for program in PROGRAMS:
                os.write(terminal, f"source {self.folder}/share/bash-completion/completions/longhaul-{program}\n".encode())
            os.write(terminal, b"bind 'set enable-bracketed-paste off'; echo rea''dy\n")
            read_until(b"ready\r\n")
            for typed, wanted in ((b"longhaul-gateway --check-c\t", b"longhaul-gateway --check-config "),
                                  (b"longhaul-gateway rot\t", b"longhaul-gateway rotate-ca "),
                                  (b"longhaul-gateway --wire=q\t", b"longhaul-gateway --wire=q8 "),
                                  (b"longhaul-gateway --model model.\t", b"longhaul-gateway --model model.gguf "),
                                  (b"longhaul-worker --cache-dir models\t", b"longhaul-worker --cache-dir models/")):
                os.write(terminal, typed)
                read_until(wanted)
                os.write(terminal, b"\x15")
        finally:
            os.close(terminal)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
