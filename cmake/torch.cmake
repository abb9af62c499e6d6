# Torch from a Python wheel, as a C++ library, without TorchConfig.cmake (which requires a CUDA toolkit).
# Defines ddprun::torch, which links only libtorch_cpu and libc10: a program that uses it starts with those two,
# libcudart and libcupti, and never loads libtorch_cuda.
#
#   ddprun_torch_target(<target>)        adds torch's flags and the precompiled header to one target
#
# The first target becomes the owner of the precompiled header; the others reuse it, so all must have the same
# compile flags.

set(DDPRUN_TORCH_VERSION 2.11.0)

set(venv "${DDPRUN_VENV}")
if(NOT venv)
  set(venv "${PROJECT_SOURCE_DIR}/.venv")
endif()
file(GLOB torch_found "${venv}/lib/python3*/site-packages/torch/version.py")
if(NOT torch_found)
  message(FATAL_ERROR
    "ddprun: no torch in '${venv}'. Run scripts/setup.sh, which installs it; or name an environment "
    "that has torch ${DDPRUN_TORCH_VERSION} with DDPRUN_VENV (environment or -DDDPRUN_VENV=…); or "
    "build without the trainer: -DDDPRUN_TRAINER=OFF.")
endif()
list(GET torch_found 0 torch_version_file)
get_filename_component(torch_root "${torch_version_file}" DIRECTORY)
file(STRINGS "${torch_version_file}" torch_version REGEX "^__version__ = ")
string(REGEX REPLACE "^.*'([0-9.]+).*$" "\\1" torch_version "${torch_version}")
if(NOT torch_version VERSION_EQUAL DDPRUN_TORCH_VERSION)
  message(FATAL_ERROR
    "ddprun: '${torch_root}' is torch ${torch_version}, but results equal Python's bit for bit only "
    "with ${DDPRUN_TORCH_VERSION}. Remedy: '${venv}/bin/pip install torch==${DDPRUN_TORCH_VERSION}', "
    "or name another environment with DDPRUN_VENV.")
endif()
message(STATUS "ddprun: torch ${torch_version} in ${torch_root}")

# The wheel has ProcessGroupGloo.hpp, but not the gloo headers that it includes.
find_path(DDPRUN_GLOO_INCLUDE gloo/context.h)
if(NOT DDPRUN_GLOO_INCLUDE)
  message(FATAL_ERROR
    "ddprun: the gloo headers are missing. Remedy: 'apt-get install libgloo-dev', or build without "
    "the trainer: -DDDPRUN_TRAINER=OFF.")
endif()

add_library(ddprun_torch INTERFACE)
add_library(ddprun::torch ALIAS ddprun_torch)
# Searched last: the wheel also has headers of fmt and others, newer than the libraries that we link.
target_compile_options(ddprun_torch INTERFACE
  "SHELL:-idirafter ${torch_root}/include"
  "SHELL:-idirafter ${torch_root}/include/torch/csrc/api/include"
  "SHELL:-idirafter ${DDPRUN_GLOO_INCLUDE}")
target_compile_definitions(ddprun_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
# The libraries that libtorch_cpu needs lie beside it in the wheel, and its own rpath finds them when
# the program starts; the linker need not see them. DT_RPATH also applies to what those load in turn.
target_link_libraries(ddprun_torch INTERFACE
  "${torch_root}/lib/libtorch_cpu.so" "${torch_root}/lib/libc10.so")
target_link_options(ddprun_torch INTERFACE
  "-Wl,--allow-shlib-undefined" "-Wl,-rpath,${torch_root}/lib")

function(ddprun_torch_target target)
  target_link_libraries(${target} PUBLIC ddprun::torch)
  ddprun_unity(${target} 4)  # each takes seconds, and both processors should have work until the end
  # The installed program uses the same wheel, which is too large and too specific to be copied.
  set_target_properties(${target} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  get_property(owner GLOBAL PROPERTY DDPRUN_PCH_OWNER)
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE "${PROJECT_SOURCE_DIR}/trainer/torch_pch.hpp")
    set_property(GLOBAL PROPERTY DDPRUN_PCH_OWNER ${target})
  endif()
  # CMake compiles programs with -fPIE and libraries with -fPIC, but the header fits only one of them.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  # ccache stores objects compiled with a precompiled header only if told that this is safe.
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  if(DDPRUN_CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${PROJECT_SOURCE_DIR}/cmake/ccache_torch.sh;${DDPRUN_CCACHE}")
  endif()
endfunction()
