"""The bench of a GPU (tests/bench/gpu) goes through on an emulated one: the same bits, each figure, and that an emulation is not as fast as wanted."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "system"))
from programs import build_folder  # noqa: E402


def main():
    build = build_folder()
    command = [sys.executable, ROOT / "tests" / "bench" / "gpu", "--build", build, "--library", build / "tests" / "longhaul-cuda-emulated.so", "--small",
               "--turns", "1", "--beside", build / "tests" / "longhaul-cuda-emulated.so"]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    assert done.returncode == 1, f"ended with {done.returncode}"
    for words in ("emulated GPU", "the same bits", "beside: 1 rows", "MISS one row", "9 rows take"):
        assert words in done.stdout, f"{words!r} is not told"
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    sys.exit(main())
