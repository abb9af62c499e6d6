#!/usr/bin/env bash
# Measures ddprun and its peers on this machine, in one run:
#
#   scripts/bench.sh [NAME...]
#
#   store       the store, and torch's TCPStore
#   agent       start, kill and restart, memory; also of torchrun
#   hostile     the store and a leader beside 200 hostile clients: latencies of the others, memory
#   rendezvous  up to a thousand agents, also with torch's elastic rendezvous; loss of nodes and leaders
#   logs        lines per second into log files
#   training    steps per second, start, recovery and snapshots; also of Python's DDP
#   python      start, restart and memory of Python's DDP with --preload and without; also of torchrun
#   loader      images per second, also of torchvision's DataLoader (DDPRUN_TINY_IMAGENET_DIR)
#
# Without a NAME, runs all of them. Writes build/bench/NAME.json with every figure, and report.md with the
# tables. docs/benchmarks.md explains the measurements.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

all=(store agent hostile rendezvous logs training python loader)
if (($# == 0)); then set -- "${all[@]}"; fi
for name in "$@"; do
  [[ -f "$ddprun_root/scripts/bench_$name.py" ]] ||
    die "unknown benchmark '$name'; choose from: ${all[*]}"
done

"$ddprun_root/scripts/setup.sh"
step "Building"
configure release -DDDPRUN_TRAINER=ON
build release all ddpbench

cd "$ddprun_root"
out="$ddprun_root/build/bench"
mkdir -p "$out"

# On a busy machine the figures include its other work, so the report states the load.
describe_machine() {
  local cpu kernel commit load
  cpu="$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"
  kernel="$(uname -sr)"
  commit="$(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ', changed')"
  read -r load _ </proc/loadavg
  cat <<MACHINE
| machine | |
|---|---|
| CPU | ${cpu:-unknown}, $(nproc) cores |
| memory | $(awk '/^MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo) |
| kernel | $kernel |
| compiler | $(g++ -dumpfullversion) |
| torch | $ddprun_torch_version |
| commit | $commit |
| load before | $load |
| date | $(date -u +%Y-%m-%d) |
MACHINE
}

# measure NAME: runs its script, which prints a table and writes every figure to NAME.json.
measure() {
  local name="$1" bin="$ddprun_root/build/release/bin" flags
  case "$name" in
    agent)
      flags=(--ddprun "$bin/ddprun" --worker "$bin/fake_worker" --python "$ddprun_venv/bin/python"
        --json "$out/agent.json")
      ;;
    hostile) flags=(--programs "$bin" --json "$out/hostile.json") ;;
    training) flags=(--bin "$bin" --json "$out/training.json") ;;
    python) flags=(--ddprun "$bin/ddprun" --python "$ddprun_venv/bin/python" --json "$out/python.json") ;;
    loader)
      [[ -n "${DDPRUN_TINY_IMAGENET_DIR:-}" ]] ||
        { echo "Skipped: DDPRUN_TINY_IMAGENET_DIR is not a directory of Tiny-ImageNet." >"$out/table.md"; return; }
      flags=("$DDPRUN_TINY_IMAGENET_DIR" --program "$bin/loader_bench")
      ;;
    *) flags=(--programs "$bin" --out "$out") ;;
  esac
  "$ddprun_venv/bin/python" "scripts/bench_$name.py" "${flags[@]}" >"$out/table.md"
}

report="$out/report.md"
describe_machine | tee "$report"
for name in "$@"; do
  step "Measuring: $name"
  measure "$name" || die "bench_$name.py failed with status $?"
  { printf '\n### %s\n\n' "$name" && cat "$out/table.md"; } | tee -a "$report"
done
step "Report: ${report#"$ddprun_root"/}"
