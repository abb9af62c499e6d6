#!/bin/bash
# Several programs in sequence in one job, each on all of its nodes.
#   sbatch steps.sh 'prepare.py' 'train.py --epochs 10' 'evaluate.py'

# Required:
#SBATCH --ntasks-per-node=1 --exclusive --mem=0

# Change as needed:
#SBATCH --job-name=steps
#SBATCH --nodes=4 --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out

set -euo pipefail
: "${1:?what to run: sbatch steps.sh 'train.py --epochs 10' 'evaluate.py'}"

# The first program that fails ends the job, with its status.
for program; do
  read -ra words <<<"$program"
  srun --ntasks-per-node=1 --kill-on-bad-exit=1 ddprun "${words[@]}"
done
