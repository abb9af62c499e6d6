#!/bin/bash
# Runs a Python program under a profiler that writes a file for each rank.
#   sbatch profile.sh train.py --epochs 1

# Required:
#SBATCH --ntasks-per-node=1 --exclusive --mem=0

# Change as needed:
#SBATCH --job-name=profile
#SBATCH --nodes=2 --gpus-per-node=8
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.out
export profiler='nsys profile --trace=cuda,nvtx --output'   # followed by the name of the file

set -euo pipefail
: "${1:?what to run: sbatch profile.sh train.py}"

# Single quotes: the worker's shell knows RANK, this shell does not.
# shellcheck disable=SC2016
srun --ntasks-per-node=1 --kill-on-bad-exit=1 ddprun --no-python bash -c \
  'exec $profiler "profile-$SLURM_JOB_ID-$RANK" python -u "$@"' _ "$@"
