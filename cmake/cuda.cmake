# CUDA and NCCL for the module in trainer/cuda/, from the wheels that a CUDA build of torch brings along.
# Defines ddprun::torch_cuda if all parts are found; building needs no GPU.

set(DDPRUN_CUDA AUTO CACHE STRING
  "Build ddprun_cuda.so, for ddptrain --device cuda: AUTO (if torch has CUDA), ON, OFF")
set_property(CACHE DDPRUN_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT DDPRUN_CUDA)
  message(STATUS "ddprun: no GPUs for ddptrain (DDPRUN_CUDA=OFF)")
  return()
endif()

get_filename_component(site_packages "${torch_root}" DIRECTORY)
file(GLOB cuda_wheel LIST_DIRECTORIES true "${site_packages}/nvidia/cu[0-9]*")
if(cuda_wheel)
  list(GET cuda_wheel -1 cuda_wheel)
endif()
find_path(DDPRUN_CUDA_INCLUDE cuda_runtime_api.h HINTS "${cuda_wheel}/include" NO_DEFAULT_PATH)
# The wheel of CUDA 13 leaves these to a separate wheel, nvidia-cuda-crt; a toolkit has them, too.
find_path(DDPRUN_CRT_INCLUDE crt/host_defines.h
  HINTS "${cuda_wheel}/include" PATHS /usr/local/cuda/include ENV CUDA_HOME PATH_SUFFIXES include)
find_path(DDPRUN_NVTX_INCLUDE nvtx3/nvToolsExt.h
  HINTS "${cuda_wheel}/include" "${site_packages}/nvidia/nvtx/include" PATHS /usr/local/cuda/include)
find_path(DDPRUN_NCCL_INCLUDE nccl.h HINTS "${site_packages}/nvidia/nccl/include")
file(GLOB cudart "${cuda_wheel}/lib/libcudart.so.*")
set(missing)
foreach(library torch_cuda c10_cuda)
  if(NOT EXISTS "${torch_root}/lib/lib${library}.so")
    list(APPEND missing "lib${library}.so")
  endif()
endforeach()
foreach(part CUDA CRT NVTX NCCL)
  if(NOT DDPRUN_${part}_INCLUDE)
    list(APPEND missing "headers of ${part}")
  endif()
endforeach()
if(NOT cudart)
  list(APPEND missing "libcudart.so")
endif()
if(missing)
  list(JOIN missing ", " missing)
  set(said "ddprun: no GPUs for ddptrain: missing beside '${torch_root}': ${missing}")
  if(DDPRUN_CUDA STREQUAL "AUTO")
    message(STATUS "${said}")
    return()
  endif()
  message(FATAL_ERROR
    "${said}. Remedy: install PyPI's torch, which has CUDA, and, if only headers of CRT are missing, "
    "'pip install nvidia-cuda-crt' for its version of CUDA; or give -DDDPRUN_CUDA=OFF.")
endif()
list(GET cudart 0 cudart)
message(STATUS "ddprun: GPUs for ddptrain, by ${cudart}")

add_library(ddprun_torch_cuda INTERFACE)
add_library(ddprun::torch_cuda ALIAS ddprun_torch_cuda)
target_link_libraries(ddprun_torch_cuda INTERFACE
  ddprun::torch "${torch_root}/lib/libtorch_cuda.so" "${torch_root}/lib/libc10_cuda.so" "${cudart}")
target_compile_definitions(ddprun_torch_cuda INTERFACE USE_C10D_NCCL)
# The wheel's own headers precede those of a toolkit in /usr/local; missing headers may come from anywhere.
target_include_directories(ddprun_torch_cuda SYSTEM INTERFACE
  "${DDPRUN_CUDA_INCLUDE}" "${DDPRUN_NVTX_INCLUDE}" "${DDPRUN_NCCL_INCLUDE}")
target_compile_options(ddprun_torch_cuda INTERFACE "SHELL:-idirafter ${DDPRUN_CRT_INCLUDE}")
