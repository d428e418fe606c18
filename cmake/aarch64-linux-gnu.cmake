# Builds for aarch64 on a Debian of another architecture, with its cross compiler (package gcc-aarch64-linux-gnu) and the sysroot
# that deploy/aarch64-sysroot fetches; ctest then runs the programs under qemu-aarch64 (package qemu-user) where that is installed:
#   deploy/aarch64-sysroot .cache/aarch64
#   cmake -G Ninja -B build-aarch64 --toolchain cmake/aarch64-linux-gnu.cmake -DLONGHAUL_SYSROOT=$PWD/.cache/aarch64
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(LONGHAUL_SYSROOT "" CACHE PATH "What deploy/aarch64-sysroot fetched")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LONGHAUL_SYSROOT)
if(NOT IS_DIRECTORY "${LONGHAUL_SYSROOT}/usr/lib/aarch64-linux-gnu")
  message(FATAL_ERROR "LONGHAUL_SYSROOT is '${LONGHAUL_SYSROOT}': give it the folder that deploy/aarch64-sysroot made")
endif()

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_SYSROOT ${LONGHAUL_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_PATH} "")
set(ENV{PKG_CONFIG_LIBDIR} ${LONGHAUL_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${LONGHAUL_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${LONGHAUL_SYSROOT})

find_program(QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU_AARCH64} -L ${LONGHAUL_SYSROOT})
endif()
