"""The estimate for GPUs (tests/bench/gpu_roofline) finds each kernel in what nvcc made, and a row takes as long as its weights' way from memory."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEIGHTS = 8 * (4 * 4096 * 4096 + 3 * 4096 * 11008) + 4096 * 49152
H100_BYTES_PER_MS = 3.35e9


def main():
    printed = subprocess.run([ROOT / "tests" / "bench" / "gpu_roofline"], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in printed.splitlines() if line.startswith("|")]
    found = float(next(row for row in rows if row[0] == "one row")[rows[0].index("H100 SXM")])
    bound = WEIGHTS * 18 / 32 / H100_BYTES_PER_MS
    assert bound < found < 1.06 * bound, f"{found} ms for a row on an H100, whose weights take {bound:.3f}"
    kernels = {row[0] for row in rows}
    assert {"norm_rows", "row_products", "tile_products", "attend_rows", "attend_tiles", "gate_rows"} <= kernels, kernels
    print(f"{len(rows)} rows of tables, {found} ms for a row on an H100")


if __name__ == "__main__":
    sys.exit(main())
