#!/usr/bin/env bash
# Sets up, builds and runs all tests:
#
#   scripts/test.sh [--without-torch]
#
#   dev      everything that needs no torch, under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan     tests of code with threads, under ThreadSanitizer
#   release  optimised programs: the trainer, its parity with Python, and the simulation
#
# and the Python wheel.
#
# --without-torch leaves out release. Failures are shown last. scripts/nightly.sh has the longer tests.
#
# Most tests wait for processes, leases and Slurm and leave processors idle: the other presets are built at the same
# time at the lowest priority, and release runs those of its tests that do not depend on timing. Their output is in
# build/log/others.log, and is shown at the end.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

with_torch=yes
setup_flags=()
case "${1:-}" in
  --without-torch) with_torch=no setup_flags=(--without-torch) ;;
  '') ;;
  *) die "unknown option '$1'; see the head of scripts/test.sh" ;;
esac

# Tests that the preset release runs as well, and more thoroughly.
left_to_release=()
if [[ $with_torch == yes ]]; then
  left_to_release=(-LE '^torch$' -E '^(sim_fresh|sim_scenarios)$')
fi

# run_tests PRESET JOBS [CTEST ARGUMENT...]: runs JOBS tests at a time.
run_tests() {
  local preset="$1" jobs="$2"
  shift 2
  (cd "$ddprun_root" &&
    "${ddprun_priority[@]}" ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --no-tests=error "$@" </dev/null) ||
    die "tests of the preset $preset failed (above); again, and one alone:" \
      "ctest --test-dir build/$preset --output-on-failure -R NAME"
}

"$ddprun_root/scripts/setup.sh" "${setup_flags[@]}"

step "Building the preset dev (AddressSanitizer, UndefinedBehaviorSanitizer, no torch)"
configure dev -DDDPRUN_TRAINER=OFF -DDDPRUN_WERROR=ON
build dev

# Those that the foreground has not built yet, and then the tests that do not depend on timing. The foreground builds
# them as well when it comes to them: the lock of each preset lets one of the two wait.
build_tsan() {
  configure tsan -DDDPRUN_WERROR=ON
  build tsan threads
}
build_release() {
  configure release -DDDPRUN_TRAINER=ON -DDDPRUN_CUDA=ON -DDDPRUN_TESTS=OPTIMISED -DDDPRUN_WERROR=ON
  build release
}
others() {
  build_tsan
  [[ $with_torch == yes ]] || return 0
  build_release
  step "Building the Python wheel, and trying it"
  "${ddprun_priority[@]}" "$ddprun_root/scripts/build_wheel.sh"
  "${ddprun_priority[@]}" python3 "$ddprun_root/tests/python/wheel_test.py" \
    --wheel "$ddprun_root"/build/wheel/*.whl --torch "$ddprun_venv/bin/python"
  run_tests release 2 -L "$untimed"
}
untimed='^(parity|sim)$'
others_log="$ddprun_log_directory/others.log"
step "Testing dev; meanwhile building the other presets, and testing the simulation and parity with Python in release"
set -m # its own process group, to end it as a whole
at_leisure others >"$others_log" 2>&1 &
set +m
others=$!
trap 'kill -- "-$others" 2>/dev/null || :' EXIT
run_tests dev 6 "${left_to_release[@]}"

step "Testing the preset tsan (ThreadSanitizer): code with threads"
build_tsan
run_tests tsan 2 -L threads

if [[ $with_torch == yes ]]; then
  # Everything else was tested under the sanitizers, in full.
  step "Testing the rest of the preset release"
  build_release
  run_tests release 3 -L '^(torch|tidy|unsanitized)$' -LE "$untimed"
fi

step "Output of the builds and tests in parallel"
tail -n +1 -f --pid="$others" -- "$others_log"
wait "$others" || die "builds and tests in parallel with the others failed (above)"
step "All tests passed"
