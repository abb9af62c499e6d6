#!/bin/bash
# Tests nodes: first each node alone, which shows the bad one, then all of them together.
#   sbatch burn_in.sh burnin.py

# Required:
#SBATCH --ntasks-per-node=1 --exclusive --mem=0

# Change as needed:
#SBATCH --job-name=burn-in
#SBATCH --nodes=4 --gpus-per-node=8
#SBATCH --time=04:30:00
#SBATCH --output=%x-%j.out
alone=(--minutes 30)      # more arguments of the program while each node runs alone
together=(--minutes 210)  # the same while all run together

set -euo pipefail
: "${1:?what to run: sbatch burn_in.sh burnin.py}"

# A node that fails must not end the others, which may report problems as well.
srun --ntasks-per-node=1 --label --kill-on-bad-exit=0 --wait=0 \
  ddprun --standalone --max-restarts 0 "$@" "${alone[@]}"
echo "each node for itself: passed"

srun --ntasks-per-node=1 --kill-on-bad-exit=1 ddprun --max-restarts 0 "$@" "${together[@]}"
echo "all nodes together: passed"
