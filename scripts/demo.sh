#!/usr/bin/env bash
# The main use case, from an empty machine to the result:
#
#   scripts/demo.sh
#
# Two workers train a small conv net on Fashion-MNIST with DDP. The job runs twice: once undisturbed, and once
# with a worker killed by SIGKILL in mid-epoch. ddprun restarts both workers, they resume from the last
# snapshot, and the final weights are the same, bit for bit.
#
# DATA_DIR names another directory with the four IDX files. The output stays in build/demo.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case "${1:-}" in
  '') ;;
  -h | --help) show_help ;;
  *) die "takes no arguments, but was given '$1'; see scripts/demo.sh --help" ;;
esac

data_dir="${DATA_DIR:-/usr/share/datasets/fashion-mnist}"
kill_at_step=150
out="$ddprun_root/build/demo"

"$ddprun_root/scripts/setup.sh"
step "Building"
configure release -DDDPRUN_TRAINER=ON
build release ddprun ddptrain
PATH="$ddprun_root/build/release/bin:$PATH"

rm -rf "$out"
mkdir -p "$out"
cd "$out"
train=(ddptrain --dataset fashion-mnist --data-dir "$data_dir"
  --epochs 2 --batch-size 32 --limit-train-samples 6400)

# Prints the line with the final figures: the last one of rank 0.
final_line() {
  grep '^final ' "$1" || die "$1 has no final line; the whole output: $(tail -n 20 "$1")"
}

# field NAME LINE: the value of NAME=value.
field() {
  sed -n "s/.*\\b$1=\\([^ ]*\\).*/\\1/p" <<<"$2"
}

echo
step "1. Undisturbed: ddprun --standalone --nproc-per-node 2 ${train[*]}"
ddprun --standalone --nproc-per-node 2 "${train[@]}" | tee undisturbed.txt

echo
step "2. The same job with snapshots; at step $kill_at_step, rank 1 is killed"
exec {shown}> >(tee disturbed.txt)
show=$!
ddprun --standalone --nproc-per-node 2 --max-restarts 1 --log-dir logs \
  "${train[@]}" --metrics-file metrics.jsonl --snapshot-dir snapshots --snapshot-every-steps 40 \
  >&"$shown" &
job=$!
exec {shown}>&-
trap 'kill "$job" 2>/dev/null || true' EXIT  # ends its workers, however this script ends

# tail sleeps in the kernel until rank 0 records the step, and ends with the job.
if ! grep -q -m1 "\"step\":$kill_at_step\\b" < <(
  tail --pid="$job" --lines=+1 --follow=name --retry metrics.jsonl 2>/dev/null
); then
  wait "$job" || die "the job failed with status $? before step $kill_at_step"
  die "the job ended before step $kill_at_step"
fi
victim="$(cat logs/*/events.jsonl | grep '"event":"worker_started"' | grep '"rank":1,' | head -n 1 |
  sed -n 's/.*"pid":\([0-9]*\).*/\1/p')"
[[ -n "$victim" ]] || die "logs/*/events.jsonl does not say which process is rank 1"
kill -KILL "$victim"
echo "kill -9 $victim    (rank 1)"
wait "$job" || die "the job did not survive: status $?"
trap - EXIT
wait "$show"

first="$(final_line undisturbed.txt)"
second="$(final_line disturbed.txt)"
echo
step "3. Result"
echo "undisturbed:    $first"
echo "with the kill:  $second"
echo "test accuracy:  $(field accuracy "$second") %"
if [[ "$(field weights_sha256 "$first")" != "$(field weights_sha256 "$second")" ]]; then
  die "the weights differ; both outputs are in $out"
fi
echo "weights:        equal, bit for bit"
