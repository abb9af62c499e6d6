#!/usr/bin/env bash
# A C++ compiler whose programs run on any Linux with glibc 2.28 (2018) or newer; for scripts/build_wheel.sh:
#
#   ZIG=PROGRAM scripts/portable_cxx.sh ARGUMENT...
#
# zig's clang brings its own C++ library, and the headers and symbols of each version of glibc. Those of this
# machine's glibc must not come before them, so /usr/include, where CMake finds other libraries, is left out.

set -euo pipefail

kept=()
while (($# > 0)); do
  case "$1" in
    -isystem) [[ "$2" == /usr/include* ]] || kept+=("$1" "$2"); shift ;;
    *) kept+=("$1") ;;
  esac
  shift
done
exec "$ZIG" c++ -target "$(uname -m)-linux-gnu.2.28" "${kept[@]}"
