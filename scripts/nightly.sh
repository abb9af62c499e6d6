#!/usr/bin/env bash
# Runs what takes too long for every change: drills with many repeats, simulations with many seeds, and the
# tests that scripts/test.sh shortens or runs in one preset only, in full:
#
#   scripts/nightly.sh [NAME...]
#
#   sim mutants                           the rendezvous in virtual time, with a million seeds
#   failover false_alarm nodes            nodes that are lost, or only slow
#   ranks names                           rank assignment and name resolution, for any start order
#   culprit                               killed workers, and which one is named as the cause
#   return cuts pods one_blow             nodes that come back
#   suspend                               nodes that are suspended
#   second_job started_again              a second start while a job runs
#   stalled_disk                          a log directory whose disk does not respond for a minute
#   chaos                                 random faults, one after another
#   faults                                failing system calls of guards and agents, 10,000 seeds
#   proxy                                 connections between two nodes that are late, cut, reset or damaged
#   fuzz                                  parsers of bytes from outside, sanitized: HTTP for an hour each, the others for ten minutes each
#   terminals unkind notice requeue       Slurm: started by hand, forced ends, notices, requeueing
#   templates                             all batch scripts, with training
#   kills snapshots training_cuts kit     killed processes, torn snapshots, interrupted trainings, all jobs
#   examples                              the checks of check_gpu.sh, on the CPU
#   packages                              the Python wheel and the Debian package, in bare systems: Debian 11 and 12
#   hangs                                 who is named when training hangs, and an hour in which nothing does
#   frameworks                            small examples of Accelerate, Lightning and transformers, from PyPI
#   newest_torch                          Python scripts under torchrun and ddprun, with PyPI's newest torch
#   unit                                  the unit tests, optimised; two of them with more repeats
#
# Without a NAME, runs all of them in sequence, for hours. Output goes to build/nightly/NAME.log; the console
# gets one line each. A failure does not stop the others; the final status is then 1. Drills on namespaces and
# Slurm need root. packages needs root and debootstrap. pods needs PODS, the name of a program that runs containers,
# and is skipped without it.
# newest_torch and frameworks install about 5 GB and 1 GB into build/nightly, and update them each time.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

all=(sim mutants failover false_alarm nodes ranks names culprit return cuts pods one_blow suspend second_job started_again
  stalled_disk chaos faults proxy fuzz
  terminals unkind notice requeue templates kills snapshots training_cuts kit examples packages hangs frameworks newest_torch unit)

case "${1:-}" in
  -h | --help) show_help ;;
esac
if (($# == 0)); then set -- "${all[@]}"; fi
for name in "$@"; do
  [[ " ${all[*]} " == *" $name "* ]] || die "unknown drill '$name'; choose from: ${all[*]}"
done

python="$ddprun_venv/bin/python"
bin="$ddprun_root/build/release/bin"
tests="$ddprun_root/tests"
nodes="$tests/integration"
out="$ddprun_root/build/nightly"
programs=(--ddprun "$bin/ddprun")
with_worker=("${programs[@]}" --round-worker "$bin/round_worker")
with_trainer=("${programs[@]}" --ddptrain "$bin/ddptrain")

# The tests that CTest runs with ddptrain's version of torch, on the CPU.
newest_torch() {
  local python="$out/torch/bin/python" with_python
  with_python=("${programs[@]}" --python "$python")
  [[ -x "$python" ]] || python3 -m venv "$out/torch"
  "$python" -m pip install --disable-pip-version-check --progress-bar off --retries 5 --upgrade torch numpy
  "$python" -c 'import torch; print("torch", torch.__version__)'
  "$python" "$tests/rendezvous/store_torch_test.py" --ddpctl "$bin/ddpctl" --probe "$bin/store_probe"
  "$python" "$nodes/launcher_lines_test.py" --python "$python" # torchrun itself
  "$python" "$nodes/launcher_lines_test.py" "${with_python[@]}"
  "$python" "$nodes/python_ddp_test.py" "${with_python[@]}"
  PYTHON_EXEC="$python" GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=1 "$python" "$nodes/nodes_test.py" "${programs[@]}" \
    --round-worker "$nodes/scripts/ddp_until_told.py" -k others_go_on -k was_frozen
  "$python" "$nodes/elastic_test.py" "${with_trainer[@]}"
}

# In the hour, the steps jitter tenfold, and nobody announces a pause.
try_hangs() {
  "$python" -B "$tests/python/progress_test.py" "${programs[@]}" --ddpctl "$bin/ddpctl" --python "$python" --times 20 Hangs
  PYTHON_EXEC="$python" "$bin/ddprun" --standalone --nproc-per-node 2 --preload auto \
    "$tests/python/scripts/jitter.py" 3600 2>&1 | tee "$out/jitter.txt"
  ! grep 'hangs on' "$out/jitter.txt"
}

# In an environment that sees ddptrain's version of torch.
try_frameworks() {
  local python="$out/frameworks/bin/python"
  [[ -x "$python" ]] || "$ddprun_venv/bin/python" -m venv "$out/frameworks"
  "$ddprun_venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
  "$python" -m pip install --disable-pip-version-check --progress-bar off --retries 5 --upgrade accelerate lightning \
    transformers
  "$python" -B "$tests/python/frameworks_test.py" "${programs[@]}" --python "$python"
}

# Where nothing of ddprun's has ever been installed.
try_packages() {
  local suite script=ddprun/tests/integration/scripts/train_ddp.py
  "$ddprun_root/scripts/build_wheel.sh"
  for suite in bullseye bookworm; do
    "$ddprun_root/scripts/clean_debian.sh" --suite "$suite" --root "$out/$suite" --file "$ddprun_root"/build/wheel/*.whl \
      "apt-get -q -y update && apt-get -q -y --no-install-recommends install python3-venv" \
      "python3 -m venv --clear trial && trial/bin/pip install -q --progress-bar off torch numpy" \
      "trial/bin/pip install -q --no-index ./*.whl" \
      "trial/bin/ddprun --standalone --nproc-per-node 2 $script"
  done
  cmake -G Ninja -S "$ddprun_root" -B "$ddprun_root/build/deb" -DCMAKE_BUILD_TYPE=Release -DDDPRUN_TRAINER=OFF \
    -DDDPRUN_TESTS=OFF
  cmake --build "$ddprun_root/build/deb"
  (cd "$ddprun_root/build/deb" && cpack -G DEB)
  # The Python with torch, from above; the wheel's program is not there any more.
  "$ddprun_root/scripts/clean_debian.sh" --root "$out/bookworm" --file "$ddprun_root"/build/deb/ddprun_*.deb \
    "trial/bin/pip uninstall -q -y ddprun && apt-get -q -y --no-install-recommends install ./ddprun_*.deb" \
    "PYTHON_EXEC=/root/trial/bin/python ddprun --standalone --nproc-per-node 2 $script && ddpctl doctor"
}

drill() {
  case "$1" in
    sim) "$bin/ddprun_sim" --seeds 1:1000000 ;;
    mutants) python3 "$tests/sim/mutants_test.py" --compiler c++ --rare --seeds 1:200000 ;;
    failover) python3 "$nodes/failover_drill.py" "${with_worker[@]}" --repeats 200 --silences 20 ;;
    false_alarm) python3 "$nodes/false_alarm_drill.py" "${programs[@]}" --ddpctl "$bin/ddpctl" --minutes 10 ;;
    nodes) python3 "$tests/slurm/nodes_cluster_test.py" "${with_worker[@]}" --repeats 20 ;;
    names) python3 "$nodes/host_names_test.py" "${programs[@]}" --python "$python" --repeats 10 ;;
    ranks) python3 "$nodes/rank_order_test.py" "${with_worker[@]}" --starts 200 ;;
    culprit)
      PYTHON_EXEC="$python" python3 "$nodes/culprit_drill.py" "${programs[@]}" --kills 1000
      PYTHON_EXEC="$python" GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 python3 "$nodes/culprit_drill.py" \
        "${programs[@]}" --worker "$nodes/scripts/ddp_until_told.py" --kills 170
      DDPTRAIN="$bin/ddptrain" GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 python3 "$nodes/culprit_drill.py" \
        "${programs[@]}" --worker "$nodes/scripts/ddptrain_until_last.py" --kills 170
      ;;
    return) # most runs wait for most of their time
      python3 "$nodes/return_drill.py" "${with_worker[@]}" --repeats 20 --terse --jobs "$((8 * $(nproc)))" --logs "$out/return"
      ;;
    cuts) python3 "$nodes/cuts_drill.py" "${programs[@]}" --cuts 300 --split 5 --leases 1,3,10 --jobs 20 --longs 3 ;;
    pods)
      if [[ -z "${PODS:-}" ]]; then echo "SKIPPED: PODS is not set to a program that runs containers"; return 0; fi
      python3 "$nodes/pods_drill.py" "${with_worker[@]}" --pods "$PODS" --repeats 10 --logs "$out/pods"
      ;;
    one_blow) python3 "$nodes/one_blow_drill.py" "${with_worker[@]}" --repeats 50 ;;
    suspend)
      python3 "$nodes/suspend_drill.py" "${with_worker[@]}" --lease 3 --pauses 2.4,2.6,2.8,3,3.2,5 --repeats 10 --jobs 8
      python3 "$tests/slurm/suspend_cluster_test.py" "${with_worker[@]}" --pauses 1,2,3,4,5,7,9,12,60,120 --repeats 2
      ;;
    second_job) python3 "$nodes/second_job_drill.py" "${with_worker[@]}" --repeats 50 ;;
    started_again) python3 "$nodes/started_again_test.py" "${with_worker[@]}" --repeats 20 ;;
    stalled_disk) python3 "$nodes/stalled_disk_drill.py" "${with_worker[@]}" --stall 60 --repeats 20 --jobs 10 ;;
    chaos) python3 "$nodes/chaos_drill.py" "${with_worker[@]}" --seeds 1:200 --jobs 4 --logs "$out/chaos" ;;
    faults)
      python3 "$nodes/faults_drill.py" "${programs[@]}" --seeds 1:10000 --jobs "$((6 * $(nproc)))" --logs "$out/faults" \
        --faulty-calls "$ddprun_root/build/release/tests/support/libfaulty_calls.so"
      ;;
    proxy) python3 "$nodes/proxy_drill.py" "${programs[@]}" --seeds 1:500 --jobs 8 --logs "$out/proxy" ;;
    fuzz)
      configure dev
      build dev file_formats_test http_test short_texts_test torch_file_test
      DDPRUN_FUZZ_SECONDS=3600 "$ddprun_root/build/dev/bin/http_test"
      DDPRUN_FUZZ_SECONDS=600 "$ddprun_root/build/dev/bin/short_texts_test"
      DDPRUN_FUZZ_SECONDS=600 "$ddprun_root/build/dev/bin/file_formats_test"
      DDPRUN_FUZZ_SECONDS=600 "$ddprun_root/build/dev/bin/torch_file_test"
      ;;
    terminals) python3 "$tests/slurm/rendezvous_cluster_test.py" "${programs[@]}" --repeats 5 --pairs 50 ;;
    unkind) python3 "$tests/slurm/unkind_cluster_test.py" "${programs[@]}" --repeats 10 ;;
    notice) "$python" "$tests/slurm/notice_cluster_drill.py" "${with_trainer[@]}" --repeats 20 ;;
    templates) python3 "$tests/slurm/templates_cluster_test.py" "${with_trainer[@]}" --python "$python" ;;
    requeue) "$python" "$tests/slurm/requeue_cluster_test.py" "${with_trainer[@]}" --python "$python" ;;
    kills)
      DDPRUN_KILLS=100 python3 "$tests/agent/processes_test.py" --launcher "$bin/run_plan" --worker "$bin/fake_worker"
      ;;
    snapshots)
      DDPRUN_SNAPSHOT_KILLS=1000 "$bin/snapshot_crash_test"
      DDPTRAIN="$bin/ddptrain" "$python" "$tests/parity/snapshot_kill_test.py" --kills 200
      ;;
    training_cuts)
      DDPTRAIN="$bin/ddptrain" "$python" "$tests/parity/cuts_test.py" --cuts 200
      DDPTRAIN="$bin/ddptrain" DDPRUN="$bin/ddprun" "$python" "$tests/parity/drill_test.py" --seeds 50
      ;;
    kit) DDPTRAIN="$bin/ddptrain" DDPRUN_KIT=all "$python" "$tests/parity/kit_test.py" ;;
    examples)
      DDPTRAIN="$bin/ddptrain" DDPRUN="$bin/ddprun" "$python" "$tests/parity/gpu_check.py" --device cpu
      ;;
    packages) try_packages ;;
    hangs) try_hangs ;;
    frameworks) try_frameworks ;;
    newest_torch) newest_torch ;;
    unit)
      ctest --test-dir "$ddprun_root/build/release" -j2 --output-on-failure --no-tests=error -L '^unit$'
      "$bin/listener_test" --gtest_repeat=50 --gtest_brief=1
      DDPRUN_TEST_LISTS=50000 python3 "$tests/slurm/hostlist_scontrol_test.py" --ddpctl "$bin/ddpctl"
      ;;
  esac
}

"$ddprun_root/scripts/setup.sh"
step "Building the preset release"
configure release -DDDPRUN_TRAINER=ON -DDDPRUN_TESTS=ON
build release

cd "$ddprun_root"
mkdir -p "$out"
failed=()
for name in "$@"; do
  started=$SECONDS verdict=passed
  # In its own shell, which ends at the first failure; in a condition it would not.
  set +e
  (set -e; drill "$name") >"$out/$name.log" 2>&1 </dev/null
  status=$?
  set -e
  if ((status != 0)); then
    verdict="FAILED with status $status" failed+=("$name")
  elif grep -q '^SKIPPED: ' "$out/$name.log"; then
    verdict="$(grep -m 1 '^SKIPPED: ' "$out/$name.log")"
  fi
  printf '%-14s %6s s  %s (build/nightly/%s.log)\n' "$name" "$((SECONDS - started))" "$verdict" "$name"
done
((${#failed[@]} == 0)) || die "failed: ${failed[*]}"
step "All passed"
