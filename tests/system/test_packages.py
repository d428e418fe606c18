"""The Debian packages: built twice with the same bytes, without complaints of lintian, installed, upgraded and purged in a root of their own.
Takes minutes, and root; skipped where the tools are not installed."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import SKIPPED, run_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ("dpkg-buildpackage", "dh", "lintian", "mmdebstrap")
SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
LINE = "longhaul-worker join https://192.0.2.1:7100 lh1.pin.id.secret\n"


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    if done.returncode:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="longhaul-packages-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        # apt's own user reads what mmdebstrap is given
        cls.folder.chmod(0o755)
        print(run(ROOT / "deploy" / "reproducible", cls.folder), flush=True)
        cls.packages = {name: next(cls.folder.glob(f"longhaul-{name}_*.deb")) for name in ("gateway", "worker", "link")}

    def test_lintian_has_nothing_to_say(self):
        changes = next(self.folder.glob("*.changes"))
        self.assertEqual(run("lintian", "--allow-root", "--fail-on", "error,warning", changes), "")

    def test_each_is_one_program_and_what_it_loads(self):
        for name, package in self.packages.items():
            files = set(re.findall(r" \./(\S+[^/\s])$", run("dpkg-deb", "--contents", package), re.M))
            self.assertEqual({path for path in files if "/bin/" in path}, {f"usr/bin/longhaul-{name}"})
            self.assertIn(f"usr/share/man/man1/longhaul-{name}.1.gz", files)
            self.assertIn(f"usr/share/bash-completion/completions/longhaul-{name}", files)
            self.assertEqual("libpcre2" in run("dpkg-deb", "--field", package, "Depends"), name == "gateway")

    # ---- In a root without a running systemd, as when an image is made ----

    def make_root(self):
        depends = {field.split()[0] for package in self.packages.values() for field in run("dpkg-deb", "--field", package, "Depends").split(", ")}
        root = self.folder / "root"
        sources = [source for source in SOURCES if pathlib.Path(source).exists() and "bookworm" in pathlib.Path(source).read_text()][:1]
        run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(sorted(depends | {'systemd'}))}", "bookworm", root, *sources)
        return root

    def inside(self, *words, **more):
        return run("chroot", self.root, *words, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}, **more)

    def dpkg_install(self, packages):
        for package in packages:
            shutil.copy(package, self.root / "tmp")
        self.inside("dpkg", "--install", *(f"/tmp/{package.name}" for package in packages))

    def of_a_later_version(self, package):
        tree, later = self.folder / "later", self.folder / f"later-{package.name}"
        run("dpkg-deb", "--raw-extract", package, tree)
        control = tree / "DEBIAN" / "control"
        control.write_text(re.sub(r"^(Version: .*)$", r"\1+later", control.read_text(), flags=re.M))
        for name in ("gateway", "worker"):
            if (tree / f"etc/longhaul/{name}.yaml").exists():
                with open(tree / f"etc/longhaul/{name}.yaml", "a") as file:
                    file.write("# later\n")
        run("dpkg-deb", "--root-owner-group", "--build", tree, later)
        shutil.rmtree(tree)
        return later

    def left(self):
        """Paths with our name in the root."""
        return {str(path.relative_to(self.root)) for top in ("etc", "lib", "usr", "var/lib", "var/cache", "run") for path in (self.root / top).rglob("*longhaul*")
                if "dpkg" not in path.parts}

    def test_installed_configured_upgraded_and_purged(self):
        self.root = self.make_root()
        before = self.left()
        self.dpkg_install(self.packages.values())
        for name in self.packages:
            self.assertRegex(self.inside(f"longhaul-{name}", "--help"), "longhaul")
        wants = self.root / "etc/systemd/system/multi-user.target.wants"
        self.assertTrue((wants / "longhaul-gateway.service").is_symlink())
        # users of units get through these
        for folder in ("var/lib/longhaul", "var/cache/longhaul"):
            self.assertEqual((self.root / folder).stat().st_mode & 0o777, 0o755, folder)
        self.assertEqual(self.inside("systemctl", "is-enabled", "longhaul-gateway.service"), "enabled\n")
        # the gateway's file is one, and lacks the model
        refused = subprocess.run(["chroot", self.root, "longhaul-gateway", "--config", "/etc/longhaul/gateway.yaml", "--check-config"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("--model", refused.stderr)
        # one line makes a worker
        said = self.inside("longhaul-worker-service", input=LINE)
        self.assertIn("longhaul-worker@main.service joins when it does", said)
        self.assertTrue((wants / "longhaul-worker@main.service").is_symlink())
        line = self.root / "etc/longhaul/worker-main.join"
        self.assertEqual(line.read_text(), "https://192.0.2.1:7100 lh1.pin.id.secret\n")
        self.assertEqual(line.stat().st_mode & 0o777, 0o600)
        # what the operator has changed stays
        changed = self.root / "etc/longhaul/gateway.yaml"
        changed.write_text(changed.read_text() + "model: /srv/model.gguf\n")
        later = [self.of_a_later_version(package) for package in self.packages.values()]
        for package in later:
            shutil.copy(package, self.root / "tmp")
        self.inside("dpkg", "--force-confold", "--install", *(f"/tmp/{package.name}" for package in later))
        self.assertIn("model: /srv/model.gguf\n", changed.read_text())
        self.assertIn("# later\n", (self.root / "etc/longhaul/worker.yaml").read_text())
        self.assertTrue((wants / "longhaul-worker@main.service").is_symlink())
        for folder in ("var/lib/private/longhaul/gateway", "var/lib/private/longhaul/worker/main", "var/cache/private/longhaul/worker/main"):
            (self.root / folder).mkdir(parents=True)
        self.inside("dpkg", "--remove", *(f"longhaul-{name}" for name in self.packages))
        self.assertTrue(changed.exists() and line.exists())
        self.assertTrue((self.root / "var/lib/private/longhaul/gateway").exists())
        self.inside("dpkg", "--purge", *(f"longhaul-{name}" for name in self.packages))
        self.assertEqual(self.left() - before, set())


if __name__ == "__main__":
    missing = [tool for tool in TOOLS if not shutil.which(tool)] + ["root"] * (os.geteuid() != 0)
    if missing:
        print(f"skipped: not there: {', '.join(missing)}")
        sys.exit(SKIPPED)
    run_tests(sys.modules[__name__])
