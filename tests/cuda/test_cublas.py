"""cuBLAS as kernels/cuda/blas.cuh declares it, beside NVIDIA's own header and library: a program that includes both compiles, so that numbers,
arguments and results are the same; and the library, where it loads, has each function, and opens no handle without a driver.

Both come with deploy/cuda-toolkit --cublas; LONGHAUL_CUBLAS names another folder with include/ and lib/. Skipped where neither is there."""
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DECLARED = ROOT / "kernels" / "cuda" / "blas.cuh"
FOLDERS = [os.environ.get("LONGHAUL_CUBLAS", ""), ROOT / ".cache" / "cublas", ROOT / ".cache" / "cuda", "/usr/local/cuda"]

# Each declared function against NVIDIA's, with enumerations as the numbers that they are.
PROGRAM = """
#include "kernels/cuda/blas.cuh"
/* In place of headers that want yet another package. */
#define __CUDA_FP16_H__
#define __CUDA_BF16_H__
struct __half;
struct __nv_bfloat16;
#include <cstdint>
#include <cuComplex.h>
#include <driver_types.h>
#include <library_types.h>
#include <type_traits>
/* What follows as C, where it has no second functions of the same names. */
#undef __cplusplus
extern "C" {
#include <cublas_v2.h>
}
#define __cplusplus 201703L

template <typename T> struct plain { typedef T type; };
template <> struct plain<cublasStatus_t> { typedef int type; };
template <> struct plain<cublasOperation_t> { typedef int type; };
template <> struct plain<cudaDataType> { typedef int type; };
template <> struct plain<cublasComputeType_t> { typedef int type; };
template <> struct plain<cublasGemmAlgo_t> { typedef int type; };
template <typename F> struct plain_function;
template <typename R, typename... A> struct plain_function<R(A...)> {
    typedef typename plain<R>::type type(typename plain<A>::type...);
};

#define X(member, name, arguments)                                                                     \\
    static_assert(std::is_same<std::remove_pointer<decltype(lh_blas::member)>::type,                   \\
                               plain_function<decltype(name)>::type>::value, #name);
LH_BLAS_FUNCTIONS(X)
#undef X

static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cudaDataType) == sizeof(int), "int");
static_assert(LH_BLAS_F32 == CUDA_R_32F && LH_BLAS_F16 == CUDA_R_16F && LH_BLAS_BF16 == CUDA_R_16BF, "types");
static_assert(LH_BLAS_AS_IT_IS == CUBLAS_OP_N && LH_BLAS_TRANSPOSED == CUBLAS_OP_T, "operations");
static_assert(LH_BLAS_COMPUTE_F32 == CUBLAS_COMPUTE_32F && LH_BLAS_COMPUTE_TF32 == CUBLAS_COMPUTE_32F_FAST_TF32, "sums");
static_assert(LH_BLAS_ANY_ALGORITHM == CUBLAS_GEMM_DEFAULT, "algorithms");
"""
# Faults that the program must not compile with.
FAULTS = {"LH_BLAS_F16 = 2": "LH_BLAS_F16 = 3", "long long a_stride": "int a_stride"}


def compiles(toolkit, declared):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "kernels" / "cuda").mkdir(parents=True)
        (pathlib.Path(folder) / "kernels" / "cuda" / "blas.cuh").write_text(declared)
        program = pathlib.Path(folder) / "program.cpp"
        program.write_text(PROGRAM)
        done = subprocess.run(["g++", "-std=c++17", "-fsyntax-only", "-w", "-I", folder, "-I", ROOT, "-I",
                               toolkit / "include", program], capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stderr


def check_library(path):
    library = ctypes.CDLL(str(path))
    names = re.findall(r"^    X\(\w+, (\w+),", DECLARED.read_text(), re.M)
    assert len(names) == 5, names
    missing = [name for name in names if not hasattr(library, name)]
    assert not missing, f"{path} has no {', '.join(missing)}"
    if not pathlib.Path("/dev/nvidiactl").exists():
        handle = ctypes.c_void_p()
        assert library.cublasCreate_v2(ctypes.byref(handle)) != 0, "a handle without a driver"
    print(f"{path}: {len(names)} functions")


def main():
    toolkit = next((pathlib.Path(folder) for folder in FOLDERS if folder and (pathlib.Path(folder) / "include" / "cublas_v2.h").exists()), None)
    if not toolkit:
        print("no cuBLAS: deploy/cuda-toolkit --cublas .cache/cublas fetches it")
        return 77
    declared = DECLARED.read_text()
    good, words = compiles(toolkit, declared)
    assert good, words
    for sound, fault in FAULTS.items():
        assert sound in declared, sound
        assert not compiles(toolkit, declared.replace(sound, fault))[0], f"{fault} is not found"
    libraries = sorted(path for folder in ("lib", "lib64") for path in (toolkit / folder).glob("libcublas.so.1[23]"))
    assert libraries, f"{toolkit} has a header and no library"
    check_library(libraries[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
