#!/usr/bin/env bash
# Builds the Python wheel that runs on any Linux with glibc 2.28 (2018) or newer:
#
#   scripts/build_wheel.sh
#
# It is build/wheel/ddprun-VERSION-….whl. `pip install .` builds one for this machine alone. The compiler is
# zig's, from PyPI; of this machine come the headers of libraries, and zlib, which is linked into ddpctl.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case "${1:-}" in
  '') ;;
  -h | --help) show_help ;;
  *) die "unknown option '$1'; see scripts/build_wheel.sh --help" ;;
esac

tools="$ddprun_wheel_tools"
out="$ddprun_root/build/wheel"
headers="$out/headers"
machine="$(uname -m)"

# Only those of libraries: see scripts/portable_cxx.sh.
link_headers() {
  local name
  mkdir -p "$headers/of_machine"
  for name in boost CLI fmt nlohmann openssl spdlog yaml-cpp archive.h archive_entry.h zconf.h zlib.h; do
    ln -sfn "/usr/include/$name" "$headers/$name"
  done
  ln -sfn "/usr/include/$machine-linux-gnu/openssl" "$headers/of_machine/openssl"
}

# build_wheel NAME=VALUE...: with these settings of CMake's.
build_wheel() {
  local definition define=()
  for definition in "$@"; do
    define+=(-C "cmake.define.$definition")
  done
  rm -f "$out"/raw/*.whl "$out"/*.whl
  # ccache takes the wrapper for a compiler of an unknown kind, and for another one in each clone.
  ZIG="$("$tools/bin/python" -c 'import ziglang, os; print(os.path.dirname(ziglang.__file__))')/zig" \
  CXX="$ddprun_root/scripts/portable_cxx.sh" CCACHE_COMPILERTYPE=clang CCACHE_COMPILERCHECK="string:zig $ddprun_zig_version" \
    "$tools/bin/python" -m pip wheel "$ddprun_root" --no-deps --no-build-isolation --wheel-dir "$out/raw" \
    --disable-pip-version-check -C "build-dir=$out/build" "${define[@]}"
}

"$ddprun_root/scripts/setup.sh" --without-torch --with-wheel
link_headers
step "Building the wheel"
(cd "$ddprun_root" && alone_in wheel wheel build_wheel DDPRUN_BUNDLE=ON \
  "CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES=$headers;$headers/of_machine" "CMAKE_LIBRARY_ARCHITECTURE=$machine-linux-gnu")
# Refuses a wheel that needs more than its name says, and gives it its name.
quietly wheel-audit env "PATH=$tools/bin:$PATH" auditwheel repair --plat "manylinux_2_28_$machine" \
  --wheel-dir "$out" "$out"/raw/*.whl
printf '%s\n' "$out"/*.whl
