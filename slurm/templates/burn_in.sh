#!/bin/bash
# Tries out nodes: each for itself, which names the bad one, then all of them together.
#   sbatch burn_in.sh burnin.py

# What belongs to the recipe.
#SBATCH --ntasks-per-node=1 --exclusive --mem=0

# What is yours to change:
#SBATCH --job-name=burn-in
#SBATCH --nodes=4 --gpus-per-node=8
#SBATCH --time=04:30:00
#SBATCH --output=%x-%j.out
alone=(--minutes 30)      # what the program is told besides, while each node runs for itself
together=(--minutes 210)  # and then

set -euo pipefail
: "${1:?what to run: sbatch burn_in.sh burnin.py}"

# Here a node that fails must not end the others, which may have something to say as well.
srun --ntasks-per-node=1 --label --kill-on-bad-exit=0 --wait=0 \
  ddprun --standalone --max-restarts 0 "$@" "${alone[@]}"
echo "each node for itself: passed"

srun --ntasks-per-node=1 --kill-on-bad-exit=1 ddprun --max-restarts 0 "$@" "${together[@]}"
echo "all nodes together: passed"
