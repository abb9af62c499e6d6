#!/bin/bash
# The minimum: one worker for each CPU or GPU of the step, on every node of the job.
#   sbatch minimal.sh train.py

#SBATCH --nodes=2 --ntasks-per-node=1

set -euo pipefail
: "${1:?what to run: sbatch minimal.sh train.py}"

srun --ntasks-per-node=1 ddprun "$@"
