#!/usr/bin/env bash
# Sets up, builds and runs all tests:
#
#   scripts/test.sh [--without-torch]
#
#   dev      everything that needs no torch, under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan     the tests of code that has threads, under ThreadSanitizer
#   release  the optimised programs: the trainer and its parity with Python, the simulation, and what
#            needs no process
#
# --without-torch leaves out the third. What failed is shown last.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Programs that tests with the label "threads" run: all else runs on one thread.
threaded=(streams_test records_test snapshot_saver_test batch_pump_test run_plan fake_worker)

with_torch=yes
setup_flags=()
case "${1:-}" in
  --without-torch) with_torch=no setup_flags=(--without-torch) ;;
  '') ;;
  *) die "unknown option '$1'; see the head of scripts/test.sh" ;;
esac

# run_tests PRESET [CTEST ARGUMENT...]
run_tests() {
  local preset="$1"
  shift
  # Two at a time: tests of processes and of training want cores of their own.
  (cd "$ddprun_root" &&
    ctest --test-dir "build/$preset" -j2 --output-on-failure --no-tests=error "$@" </dev/null) ||
    die "tests of the preset $preset failed (above); again, and one alone:" \
      "ctest --test-dir build/$preset --output-on-failure -R NAME"
}

"$ddprun_root/scripts/setup.sh" "${setup_flags[@]}"

step "Building the preset dev (AddressSanitizer, UndefinedBehaviorSanitizer, no torch)"
configure dev -DDDPRUN_TRAINER=OFF -DDDPRUN_WERROR=ON
build dev
step "Testing it"
run_tests dev

step "Building the preset tsan (ThreadSanitizer)"
configure tsan -DDDPRUN_WERROR=ON
build tsan "${threaded[@]}"
step "Testing what has threads"
run_tests tsan -L threads

if [[ $with_torch == yes ]]; then
  step "Building the preset release"
  configure release -DDDPRUN_TRAINER=ON -DDDPRUN_CUDA=ON -DDDPRUN_WERROR=ON
  build release
  step "Testing it, parity with Python included"
  # Processes and clusters without torch were tested under the sanitizers.
  run_tests release -L '^(unit|sim|tidy|torch)$'
fi
step "All tests passed"
