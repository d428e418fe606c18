# CUDA kernels (kernels/cuda), compiled by nvcc into a library of their own, which a worker opens at run time; no program is linked with it. LONGHAUL_CUDA: ON wants a toolkit, AUTO takes one that is found: the one in LONGHAUL_CUDA_TOOLKIT, else what deploy/cuda-toolkit
# fetched, else the system's.
set(LONGHAUL_CUDA AUTO CACHE STRING "Build the CUDA kernels: AUTO, ON or OFF")
set(LONGHAUL_CUDA_TOOLKIT "" CACHE PATH "A CUDA toolkit, of 13.0 or later")
set_property(CACHE LONGHAUL_CUDA PROPERTY STRINGS AUTO ON OFF)

# Each function becomes what it says, in the order of kernels.h: no contraction, subnormals kept, quotients and roots rounded to nearest.
set(CUDA_OPTIONS -std=c++17 -O3 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -I${CMAKE_SOURCE_DIR} -Werror all-warnings)
# Machine code for each architecture since Turing, and PTX for those to come, from two readings of the sources: tensor cores have the larger
# tiles since 8.0 and nothing else differs.
set(LONGHAUL_CUDA_ARCHITECTURES 75 80 86 89 90 100 120 CACHE STRING "What GPUs the CUDA kernels have machine code for; fewer compile faster")
list(TRANSFORM LONGHAUL_CUDA_ARCHITECTURES PREPEND sm_ OUTPUT_VARIABLE codes)
if(sm_75 IN_LIST codes)
  list(REMOVE_ITEM codes sm_75)
  list(APPEND CUDA_GENERATE -gencode=arch=compute_75,code=sm_75)
endif()
list(APPEND codes compute_80)
list(JOIN codes , codes)
list(APPEND CUDA_GENERATE -gencode=arch=compute_80,code=[${codes}])

function(find_cuda_toolkit)
  if(LONGHAUL_CUDA STREQUAL OFF OR CMAKE_CROSSCOMPILING OR LONGHAUL_SANITIZE OR LONGHAUL_FUZZ)
    return()
  endif()
  find_program(LONGHAUL_NVCC nvcc HINTS ${LONGHAUL_CUDA_TOOLKIT}/bin ${CMAKE_SOURCE_DIR}/.cache/cuda/bin PATHS /usr/local/cuda/bin)
  find_program(CXX_COMPILER NAMES g++ c++)
  mark_as_advanced(LONGHAUL_NVCC CXX_COMPILER)
  set(missing "")
  if(NOT LONGHAUL_NVCC)
    set(missing "no nvcc is found: run deploy/cuda-toolkit, or name a toolkit with -DLONGHAUL_CUDA_TOOLKIT=FOLDER")
  elseif(NOT CXX_COMPILER)
    set(missing "nvcc wants a C++ compiler: apt-get install g++")
  else()
    execute_process(COMMAND ${LONGHAUL_NVCC} --version OUTPUT_VARIABLE version)
    string(REGEX MATCH "release ([0-9.]+)" version "${version}")
    if(CMAKE_MATCH_1 VERSION_LESS 13.0)
      set(missing "${LONGHAUL_NVCC} is of ${CMAKE_MATCH_1}; 13.0 is the oldest that will do: run deploy/cuda-toolkit")
    endif()
  endif()
  if(missing AND LONGHAUL_CUDA STREQUAL ON)
    message(FATAL_ERROR "LONGHAUL_CUDA is ON: ${missing}")
  elseif(missing)
    message(STATUS "CUDA kernels are not built: ${missing}")
  else()
    message(STATUS "CUDA kernels are built by ${LONGHAUL_NVCC}, ${CMAKE_MATCH_1}")
    set(CUDA_IS_FOUND TRUE PARENT_SCOPE)
  endif()
endfunction()

find_cuda_toolkit()
if(CUDA_IS_FOUND)
  get_filename_component(cuda_root ${LONGHAUL_NVCC} DIRECTORY)
  get_filename_component(cuda_root ${cuda_root} DIRECTORY)
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu)
  set(cuda_objects "")
  # Beside each object: what the assembler says of registers and memory, and the PTX. tests/cuda/test_ptx.py reads both.
  foreach(source ${cuda_sources})
    get_filename_component(name ${source} NAME_WE)
    set(made ${CMAKE_BINARY_DIR}/cuda/${name})
    list(APPEND cuda_objects ${made}.o)
    add_custom_command(OUTPUT ${made}.o
      COMMAND ${CMAKE_COMMAND} -E make_directory ${made}
      COMMAND sh -c "\"$@\" >${made}.log 2>&1 || { cat ${made}.log; exit 1; }" compile
        ${LONGHAUL_NVCC} -ccbin ${CXX_COMPILER} ${CUDA_OPTIONS} ${CUDA_GENERATE} -Xcompiler=-fPIC -Xptxas=-v --keep --keep-dir ${made}
        -MD -MF ${made}.d -c ${source} -o ${made}.o
      DEPENDS ${source} DEPFILE ${made}.d VERBATIM COMMENT "CUDA kernels/cuda/${name}.cu")
  endforeach()
  set(cuda_library ${CMAKE_BINARY_DIR}/longhaul-cuda.so)
  add_custom_command(OUTPUT ${cuda_library}
    COMMAND ${LONGHAUL_NVCC} -ccbin ${CXX_COMPILER} -shared -cudart static -L${cuda_root}/lib -Xlinker=-z,defs -o ${cuda_library} ${cuda_objects}
    DEPENDS ${cuda_objects} VERBATIM COMMENT "CUDA longhaul-cuda.so")
  # A worker opens it at run time. It is built where it is tested, and installed where it is asked for.
  if(LONGHAUL_TESTS OR LONGHAUL_CUDA STREQUAL ON)
    set(in_all ALL)
  endif()
  if(LONGHAUL_CUDA STREQUAL ON)
    install(FILES ${cuda_library} DESTINATION lib/longhaul COMPONENT worker)
  endif()
  add_custom_target(longhaul-cuda ${in_all} DEPENDS ${cuda_library})
endif()
