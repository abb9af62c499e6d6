#!/usr/bin/env bash
# Sets up, builds and runs all tests:
#
#   scripts/test.sh [--without-torch]
#
#   dev      everything that needs no torch, under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan     the tests of code that has threads, under ThreadSanitizer
#   release  the optimised programs: the trainer and its parity with Python, and the simulation
#
# --without-torch leaves out the third. What failed is shown last. scripts/nightly.sh has what takes longer.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

with_torch=yes
setup_flags=()
case "${1:-}" in
  --without-torch) with_torch=no setup_flags=(--without-torch) ;;
  '') ;;
  *) die "unknown option '$1'; see the head of scripts/test.sh" ;;
esac

# What the preset release does as well, and more of it.
left_to_release=()
if [[ $with_torch == yes ]]; then
  left_to_release=(-LE '^torch$' -E '^(sim_fresh|sim_stories|templates_cluster)$')
fi

# run_tests PRESET JOBS [CTEST ARGUMENT...]: so many at a time.
run_tests() {
  local preset="$1" jobs="$2"
  shift 2
  (cd "$ddprun_root" &&
    ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --no-tests=error "$@" </dev/null) ||
    die "tests of the preset $preset failed (above); again, and one alone:" \
      "ctest --test-dir build/$preset --output-on-failure -R NAME"
}

"$ddprun_root/scripts/setup.sh" "${setup_flags[@]}"

step "Building the preset dev (AddressSanitizer, UndefinedBehaviorSanitizer, no torch)"
configure dev -DDDPRUN_TRAINER=OFF -DDDPRUN_WERROR=ON
build dev

build_others() {
  configure tsan -DDDPRUN_WERROR=ON
  build tsan threads
  [[ $with_torch == yes ]] || return 0
  configure release -DDDPRUN_TRAINER=ON -DDDPRUN_CUDA=ON -DDDPRUN_TESTS=OPTIMISED -DDDPRUN_WERROR=ON
  build release
}
step "Testing it, while the other presets are built"
set -m # a process group of its own, to end it as a whole
at_leisure build_others &
set +m
others=$!
trap 'kill -- "-$others" 2>/dev/null || :' EXIT
# Most of these wait for processes, leases and Slurm for most of their time.
run_tests dev 4 "${left_to_release[@]}"

step "Building what is left of the other presets"
wait "$others"
step "Testing the preset tsan (ThreadSanitizer): what has threads"
run_tests tsan 2 -L threads

if [[ $with_torch == yes ]]; then
  step "Testing the preset release, parity with Python included"
  # All else was tested under the sanitizers.
  # Training wants cores of its own.
  run_tests release 2 -L '^(sim|tidy|torch)$'
fi
step "All tests passed"
