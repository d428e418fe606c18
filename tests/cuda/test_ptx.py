"""What nvcc made of kernels/cuda, without a GPU: the PTX has the operations of the sources and no others, and the assembler's machine code
keeps within stated registers and shared memory, with nothing spilled, on each architecture.

The build leaves both in LONGHAUL_BUILD/cuda (cmake/cuda.cmake). Before it reads them, the test plants one fault of each kind and expects it to
be found."""
import os
import pathlib
import re
import sys

from ptxas import Compiled, blocks_at_once, compiled_kernels

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LONGHAUL_BUILD", ROOT / "build"))


def architectures():
    """Those that the build was to compile for."""
    lines = (BUILD / "CMakeCache.txt").read_text().splitlines()
    numbers = next(line.partition("=")[2] for line in lines if line.startswith("LONGHAUL_CUDA_ARCHITECTURES:"))
    return {f"sm_{number}" for number in numbers.split(";")}


# Operations that may give other bits than kernels.h says. An operation without .rn is one that the assembler may contract.
FORBIDDEN = {
    r"\.ftz": "subnormals are flushed",
    r"\.approx|\.full": "is approximate",
    r"\.sat": "saturates",
    r"^(add|sub|mul|div|sqrt|rcp|fma|mad)(?!\.rn)\S*\.f(32|64)$": "is not rounded to nearest, or may be contracted",
    r"^mad\.rn": "is a contraction",
    r"^(ex2|lg2|sin|cos|tanh|rsqrt)\b": "is none of our functions",
    r"^(atom|red)\b.*\.(f|bf)\d": "adds in an order of chance",
    r"\.f64$": "works in double",
    r"^ld\.global\.nc": "may read what lay there before the grids before ended",
}
FUSED = re.compile(r"^fma\.")
OPERATION = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][a-z0-9_.:]*)[\s;]")

# Name and template numbers -> the most registers of a thread and bytes of shared memory of a block, and why so many. 65,536 registers are a
# multiprocessor's; its shared memory is 64 KiB (7.5) to 228 KiB.
LIMITS = {
    # 6 blocks of 128 threads (of wide forms, and of experts, 4), each of which has the weights of two phases on its way
    "row_products": (128, 8192),
    "batch_products<1>": (168, 36916),  # 3 blocks: each warp has the weights of 8 terms on their way
    "batch_products<2>": (192, 36916),  # likewise; of Q2_K, which takes more than 168 registers, 2
    "tile_products<1,32>": (168, 12288),  # 3 blocks
    "tile_products<1,64>": (248, 24576),  # 2 blocks of types with large blocks (Q2_K takes 246 on 8.0, the others 240 at most), else 3
    "tile_products<2,64>": (168, 24576),  # 3 blocks
    "attend_rows<1>": (80, 2048),  # 3 blocks of 256 threads, each of which has 32 numbers on their way
    "attend_rows<2>": (80, 4096),
    "attend_rows<4>": (128, 8192),  # 2 blocks
    "attend_rows<8>": (128, 16384),
    "combine_blocks": (56, 2048),  # 9 blocks
    "attend_tiles": (168, 45056),  # 3 blocks: 64 sums a thread, and the next chunk on its way
    "float_products": (64, 4160),  # 4 blocks of 256 threads
    "norm_rows": (42, 32768),  # two buffers of the numbers whose squares are summed
    "count_slots": (42, 16),  # what each warp counted
    "place_slots": (64, 16),
    "cut_digit": (64, 8456),  # likewise; the weights of 1024 digits
    "find_maxima": (42, 64),  # what each warp found
    "find_leads": (42, 64),
}
ELSE = (42, 4)  # 12 blocks of 128 threads


def ptx_problems(text):
    """What in a PTX text is not in the sources. Fused products come from lh_fma, inline assembly, and so lie between nvcc's marks of it."""
    inline = False
    for number, line in enumerate(text.splitlines(), 1):
        if "inline asm" in line:
            inline = "begin" in line
        operation = OPERATION.match(line)
        if not operation or line.lstrip().startswith((".", "//")):
            continue
        for pattern, what in FORBIDDEN.items():
            if re.search(pattern, operation[1]):
                yield f"line {number}: {operation[1]} {what}"
        if FUSED.match(operation[1]) and not inline:
            yield f"line {number}: {operation[1]} is not in the source: a contraction"


# Kernels that have their weights on the way before they wait.
READ_AHEAD = re.compile(r"row_products.*Lb0|batch_products|tile_products")


def early_problems(text):
    """Kernels of the reading for 9.0 that do not wait for the grids before, or do not let the next one begin before they do."""
    for kernel in re.split(r"^\.(?:visible |weak )?\.?entry ", text, flags=re.M)[1:]:
        lets, waits = kernel.find("griddepcontrol.launch_dependents"), kernel.rfind("griddepcontrol.wait")
        if not 0 <= lets < waits:
            yield f"{kernel.partition('(')[0]} does not let the next grid begin and then wait for those before"
        elif READ_AHEAD.search(kernel.partition("(")[0]) and "ld.global" not in kernel[:waits]:
            yield f"{kernel.partition('(')[0]} reads no weights ahead"


def limit_problems(kernels):
    for k in kernels:
        most_registers, most_shared = LIMITS.get(k.name, ELSE)
        if k.local:
            yield f"{k.name} for {k.architecture} keeps {k.local} bytes in local memory"
        if k.registers > most_registers:
            yield f"{k.name} for {k.architecture} takes {k.registers} registers, over {most_registers}"
        if k.shared > most_shared:
            yield f"{k.name} for {k.architecture} takes {k.shared} bytes of shared memory, over {most_shared}"


SOUND = """	// begin inline asm
	fma.rn.f32 %f1, %f2, %f3, %f4;
	// end inline asm
	@%p1 mul.rn.f32 	%f5, %f6, %f7;
	mad.lo.s32 	%r1, %r2, %r3, %r4;
	atom.shared.add.u64 	%rd1, [%r1], %rd2;
"""
UNSOUND = {
    "\tfma.rn.f32 \t%f1, %f2, %f3, %f4;\n": "contraction",
    "\tmul.f32 \t%f1, %f2, %f3;\n": "contracted",
    "\tadd.ftz.f32 \t%f1, %f2, %f3;\n": "flushed",
    "\t@%p1 div.full.f32 \t%f1, %f2, %f3;\n": "approximate",
    "\tsqrt.approx.f32 \t%f1, %f2;\n": "approximate",
    "\tex2.approx.f32 \t%f1, %f2;\n": "none of our functions",
    "\tred.global.add.f32 \t[%rd1], %f2;\n": "order of chance",
    "\tatom.global.add.noftz.bf16 \t%h1, [%rd1], %h2;\n": "order of chance",
    "\tmul.rn.f64 \t%fd1, %fd2, %fd3;\n": "double",
}
LOG = """ptxas info    : Compiling entry function '_Z14batch_productsI7lh_formIL8lh_dtype2EELj1EEv20lh_product_arguments' for 'sm_80'
    {} bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used {} registers, used 1 barriers, {} bytes smem, 472 bytes cmem[0]
"""


def self_test():
    assert not list(ptx_problems(SOUND)), list(ptx_problems(SOUND))
    for line, wanted in UNSOUND.items():
        assert any(wanted in problem for problem in ptx_problems(SOUND + line)), f"{line.strip()} is not found"
    entry = ".visible .entry gate_rows(\n)\n{{\n{}}}\n"
    early = "\tgriddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;\n"
    assert not list(early_problems(entry.format(early))) and len(list(early_problems(entry.format("") + entry.format(early)))) == 1
    assert "ahead" in next(early_problems(entry.format(early).replace("gate_rows", "batch_products")))
    for figures, wanted in (((0, 168, 36916), ""), ((16, 168, 36916), "local memory"), ((0, 169, 36916), "registers"), ((0, 168, 36917), "shared")):
        found = list(limit_problems(compiled_kernels(LOG.format(*figures))))
        assert len(found) == bool(wanted) and all(problem.startswith("batch_products<1> for sm_80") and wanted in problem for problem in found), found
    # By the rules of CUDA's occupancy calculator: bounded by registers, by shared memory, by warps, by blocks.
    for architecture, registers, shared, threads, wanted in (
            ("sm_80", 168, 0, 128, (3, 12 / 64)), ("sm_86", 32, 45056, 128, (2, 8 / 48)), ("sm_90", 32, 32768, 1024, (2, 1)), ("sm_89", 16, 0, 32, (24, 0.5))):
        found_blocks = blocks_at_once(Compiled("", "", architecture, registers, shared, 0), threads)
        assert found_blocks == wanted, f"{architecture}, {registers} registers, {shared} bytes, {threads} threads: {found_blocks}"


def main():
    self_test()
    found, kernels, expected = [], set(), architectures()
    texts = sorted((BUILD / "cuda").glob("*/*.ptx"))
    for path in texts:
        text = path.read_text()
        found += [f"{path.name}: {problem}" for problem in [*ptx_problems(text), *(early_problems(text) if ".compute_90." in path.name else ())]]
    sources = sorted((ROOT / "kernels" / "cuda").glob("*.cu"))
    for source in sources:
        compiled = list(compiled_kernels((BUILD / "cuda" / f"{source.stem}.log").read_text()))
        found += limit_problems(compiled)
        kernels.update(kernel.name for kernel in compiled)
        if compiled and {kernel.architecture for kernel in compiled} != expected:
            found.append(f"{source.name} is not compiled for all of {', '.join(sorted(expected))}")
    found += [f"{kernel} has limits and is not there" for kernel in sorted(LIMITS.keys() - kernels)]
    readings = len({min(int(architecture[3:]) // 10, 9) for architecture in expected})
    if len(texts) != readings * len(sources):
        found.append(f"{len(texts)} PTX texts of {len(sources)} sources: {readings} of each are expected")
    print("\n".join(found))
    print(f"{len(texts)} PTX texts, {len(kernels)} kernels, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
