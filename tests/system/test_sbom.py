"""The bill of materials of the programs: it keeps CycloneDX's own schema, and lists what the loader loads, as dpkg knows it."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import build_folder, need_file, run_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "sbom"


def bill_of(*programs, check=True):
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1795460651", "http_proxy": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"}
    return subprocess.run([sys.executable, SCRIPT, *programs], check=check, capture_output=True, text=True, env=environment)


@unittest.skipUnless(shutil.which("dpkg-query"), "no Debian")
class Sbom(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = [need_file(build_folder() / f"longhaul-{name}", f"longhaul-{name} is not built") for name in ("gateway", "worker")]
        cls.text = bill_of(*cls.programs).stdout
        cls.bill = json.loads(cls.text)
        cls.components = {component["bom-ref"]: component for component in cls.bill["components"]}

    def faults_of(self, text):
        try:
            from cyclonedx.schema import SchemaVersion
            from cyclonedx.validation.json import JsonStrictValidator
        except ImportError:
            self.skipTest("cyclonedx-python-lib is not installed: tests/run does that (tests/requirements.txt)")
        return JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)

    def test_it_keeps_the_schema(self):
        self.assertIsNone(self.faults_of(self.text))
        # and the schema would have noticed
        spoilt = self.text.replace('"type": "library"', '"type": "bookshelf"', 1)
        self.assertIsNotNone(self.faults_of(spoilt))

    def test_every_library_is_in_it(self):
        listed = {entry["value"] for component in self.components.values() for entry in component.get("properties", [])}
        for program in self.programs:
            loaded = re.findall(r"^\s*\S+ => (/\S+)", subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout, re.M)
            self.assertGreater(len(loaded), 10)
            self.assertLessEqual(set(loaded), listed)

    def test_versions_are_those_that_are_installed(self):
        installed = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libseccomp2"], check=True, capture_output=True, text=True).stdout
        component = next(component for component in self.components.values() if component["name"] == "libseccomp2")
        self.assertEqual(component["version"], installed)
        self.assertRegex(component["purl"], r"^pkg:deb/\w+/libseccomp2@[\w.%-]+\?arch=\w+&distro=\S+&upstream=libseccomp%40")
        self.assertIn({"license": {"id": "LGPL-2.1-only"}}, component["licenses"])

    def test_each_program_depends_on_what_it_loads(self):
        depends = {entry["ref"]: {self.components[ref]["name"] for ref in entry["dependsOn"]} for entry in self.bill["dependencies"]}
        self.assertEqual(depends["longhaul"], {"longhaul-gateway", "longhaul-worker"})
        self.assertIn("libpcre2-8-0", depends["longhaul-gateway"])
        self.assertNotIn("libpcre2-8-0", depends["longhaul-worker"])
        self.assertTrue({"libc6", "libssl3", "libnghttp2-14"} <= depends["longhaul-gateway"] & depends["longhaul-worker"])

    def test_the_same_gives_the_same(self):
        self.assertEqual(bill_of(*self.programs).stdout, self.text)

    def test_a_library_of_no_package_is_told_by_its_digest(self):
        with tempfile.TemporaryDirectory(prefix="longhaul-sbom-") as folder:
            source, library, program = (pathlib.Path(folder) / name for name in ("own.c", "libown.so", "longhaul-own"))
            source.write_text('#ifdef LIBRARY\nint own(void) { return 0; }\n#else\n#include <stdio.h>\nint own(void);\n'
                              'int main(void) { puts("longhaul-own 9.9"); return own(); }\n#endif\n')
            subprocess.run(["cc", "-shared", "-fPIC", "-DLIBRARY", source, "-o", library], check=True)
            subprocess.run(["cc", source, library, f"-Wl,-rpath,{folder}", "-o", program], check=True)
            bill = bill_of(program)
            own = next(component for component in json.loads(bill.stdout)["components"] if component["name"] == "libown.so")
            self.assertEqual((len(own["hashes"][0]["content"]), "purl" in own), (64, False))
            self.assertIsNone(self.faults_of(bill.stdout))
            library.unlink()
            missing = bill_of(program, check=False)
            self.assertNotEqual(missing.returncode, 0)
            self.assertIn("libown.so", missing.stderr)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
