"""What the assembler said of each kernel when the build compiled it (cmake/cuda.cmake keeps that in BUILD/cuda), and how many of its blocks of
threads a multiprocessor can have at once."""
import dataclasses
import re
import subprocess


@dataclasses.dataclass(frozen=True)
class Compiled:
    name: str  # batch_products<1>
    declaration: str  # void batch_products<lh_form<type 2>, 1u, false>(lh_product_arguments, unsigned int)
    architecture: str  # sm_90
    registers: int  # of a thread
    shared: int  # bytes of a block of threads
    local: int  # bytes of a thread's stack, and of what is spilled


def plain(declaration):
    return re.sub(r"\(lh_(\w+)\)(?=\d)", r"\1 ", declaration.replace("(anonymous namespace)::", ""))


def kernel_name(declaration):
    """batch_products<1> of its declaration, as c++filt writes it."""
    numbers = re.findall(r"\b([0-9]+)u\b", plain(declaration))
    return re.search(r"(\w+)(<.*>)?\(", plain(declaration))[1] + (f"<{','.join(numbers)}>" if numbers else "")


def compiled_kernels(log):
    """Each kernel for each architecture of a file's log."""
    readable = subprocess.run(["c++filt"], input=log, check=True, capture_output=True, text=True).stdout
    for part in readable.split("Compiling entry function '")[1:]:
        declaration, architecture = re.match(r"(.+)' for '(\w+)'", part).groups()
        shared = re.search(r"(\d+) bytes smem", part)
        local = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        yield Compiled(kernel_name(declaration), plain(declaration), architecture, int(re.search(r"Used (\d+) registers", part)[1]),
                       int(shared[1]) if shared else 0, sum(map(int, local.groups())))


@dataclasses.dataclass(frozen=True)
class Multiprocessor:
    """Of CUDA's programming guide, "Compute Capabilities"."""
    warps: int
    blocks: int
    shared_kib: int


MULTIPROCESSORS = {"sm_80": Multiprocessor(64, 32, 164), "sm_86": Multiprocessor(48, 16, 100), "sm_89": Multiprocessor(48, 24, 100),
                   "sm_90": Multiprocessor(64, 32, 228)}
# The same for all of them: a multiprocessor has four parts of 16,384 registers, which a warp gets by 256; shared memory is given by 128 bytes, and
# each block of threads takes a KiB more than it asks for.
PARTS, PART_REGISTERS, REGISTERS_AT_ONCE, SHARED_AT_ONCE, SHARED_OF_SYSTEM = 4, 16384, 256, 128, 1024


def up(number, step):
    return -(-number // step) * step


def blocks_at_once(compiled, threads):
    """Blocks of so many threads that a multiprocessor has at once, and the share of its warps that they are."""
    m = MULTIPROCESSORS[compiled.architecture]
    warps = -(-threads // 32)
    by_registers = PART_REGISTERS // up(32 * compiled.registers, REGISTERS_AT_ONCE) * PARTS // warps
    by_shared = m.shared_kib * 1024 // (up(compiled.shared, SHARED_AT_ONCE) + SHARED_OF_SYSTEM)
    blocks = min(m.blocks, m.warps // warps, by_registers, by_shared)
    return blocks, blocks * warps / m.warps
