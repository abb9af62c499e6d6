# Sourced by the other scripts: paths, output, errors.
# shellcheck shell=bash disable=SC2034

set -euo pipefail

ddprun_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
ddprun_torch_version=2.11.0
# Packages that the tests compare ddptrain with, besides torch, and read its files with; and those CUDA headers
# that torch does not bring along, of torch's CUDA version.
ddprun_peers=(torchvision==0.26.0 pillow==13.0.0 safetensors==0.8.0 tensorboard==2.21.0
  nvidia-cuda-crt==13.0.88)
# Many clones may share an environment with torch; see docs/development.md.
ddprun_venv="${DDPRUN_VENV:-$ddprun_root/.venv}"
export DDPRUN_VENV="$ddprun_venv"
# Shared by all clones of a machine, as is the record of clean files.
ddprun_clang_tidy_version=23.1.4
ddprun_clang_tidy_venv="${XDG_CACHE_HOME:-$HOME/.cache}/ddprun/clang-tidy-$ddprun_clang_tidy_version"
ddprun_clang_tidy="$ddprun_clang_tidy_venv/bin/clang-tidy"
ddprun_zig_version=0.17.1
ddprun_wheel_tools="${XDG_CACHE_HOME:-$HOME/.cache}/ddprun/wheel-$ddprun_zig_version"
ddprun_log_directory="$ddprun_root/build/log"
ddprun_priority=()  # words before a build; see at_leisure

# A clone's objects serve the next clone, wherever it lies: CI has a new clone for each run.
export CCACHE_BASEDIR="$ddprun_root" CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros

# Colours only on a terminal: not in a pipe, in CI, or with NO_COLOR.
if [[ -t 1 && -z "${NO_COLOR:-}" && -z "${CI:-}" ]]; then
  bold=$'\e[1m' plain=$'\e[0m'
else
  bold='' plain=''
fi

# Prints which step begins, and when in CI, where nobody watches.
step() {
  printf '%s==> %s%s%s\n' "$bold" "${CI:+after $SECONDS s: }" "$*" "$plain"
}

# Ends the script with one line on stderr: what is wrong and what to do.
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Prints the comment at the head of the script, which says how to use it, and ends it.
show_help() {
  sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
  exit 0
}

# quietly NAME COMMAND...: runs the command with its output in build/log/NAME.log, and shows the end of that log
# only if the command fails.
quietly() {
  local name="$1" log="$ddprun_log_directory/$1.log" status=0
  shift
  mkdir -p "$ddprun_log_directory"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if ((status != 0)); then
    tail -n 40 "$log" >&2
    printf '%s: %s failed with status %s; the whole output is in %s\n' \
      "$(basename "$0")" "$name" "$status" "$log" >&2
    return "$status"
  fi
}

# alone_in PRESET NAME COMMAND...: as quietly, while nothing else writes build/PRESET: another script, or the
# compilers of a killed one. Two writers of one precompiled header break it, and ccache keeps the broken one. The lock is
# held until the shell that calls this, and all of the command, have ended: call it in a subshell.
alone_in() {
  local lock
  mkdir -p build
  exec {lock}>"build/$1.lock"
  if ! flock --nonblock "$lock"; then
    step "Waiting for another build of build/$1 to end"
    flock "$lock"
  fi
  quietly "${@:2}"
}

# configure PRESET [CMAKE ARGUMENT...]: configures build/PRESET. Fast if nothing changed.
configure() {
  local preset="$1"
  shift
  (cd "$ddprun_root" && alone_in "$preset" "configure-$preset" \
    cmake --preset "$preset" "-DDDPRUN_VENV=$ddprun_venv" "$@")
}

# build PRESET [TARGET...]: everything, or the given targets.
build() {
  local preset="$1"
  shift
  (cd "$ddprun_root" && alone_in "$preset" "build-$preset" \
    "${ddprun_priority[@]}" ninja -C "build/$preset" "$@")
}

# at_leisure COMMAND...: its builds use only idle processors, and end with the shell that they run in. It has
# its own session, because Linux divides processors among sessions before it considers niceness
# (sched_autogroup; without it, the file does not exist).
at_leisure() {
  # shellcheck disable=SC2016
  local ddprun_priority=(setsid --wait setpriv --pdeathsig TERM nice -n 19
    sh -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null || :; exec "$@"' at_leisure)
  "$@"
}
