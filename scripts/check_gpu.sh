#!/usr/bin/env bash
# Runs the checks that need a GPU, on a machine that has one:
#
#   scripts/check_gpu.sh [--without-bench]
#
#   parity   trains the examples, and compares with Python's DDP on the same GPUs; over NCCL if there are two
#   resume   kills a rank, restarts all, and compares the weights with those of an undisturbed run
#   bench    samples per second, start and recovery, also of Python's DDP (docs/benchmarks.md has no GPU)
#
# Uses two GPUs if there are two. The first lines name the GPU, driver and torch; report the rest of the output
# in an issue, or in docs/benchmarks.md.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

with_bench=yes
case "${1:-}" in
  --without-bench) with_bench=no ;;
  '') ;;
  -h | --help) show_help ;;
  *) die "unknown option '$1'; see the head of scripts/check_gpu.sh" ;;
esac

command -v nvidia-smi >/dev/null || die "nvidia-smi not found: this script needs a GPU"
nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv ||
  die "nvidia-smi finds no GPU (above)"

"$ddprun_root/scripts/setup.sh"
step "Building the trainer with CUDA"
configure release -DDDPRUN_TRAINER=ON -DDDPRUN_CUDA=ON
build release

cd "$ddprun_root"
bin="$ddprun_root/build/release/bin"
python="$ddprun_venv/bin/python"
"$python" -c 'import torch; print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, NCCL {torch.cuda.nccl.version()}")'

step "Comparing with Python's DDP, then killing and resuming"
DDPTRAIN="$bin/ddptrain" DDPRUN="$bin/ddprun" "$python" tests/parity/gpu_check.py

[[ $with_bench == yes ]] || exit 0
step "Measuring, also with Python's DDP"
mkdir -p build/bench
"$python" scripts/bench_training.py --bin "$bin" --device cuda --json build/bench/training_gpu.json
