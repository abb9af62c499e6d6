#!/bin/bash
# One node, one worker for each of its GPUs.
#   sbatch single_node.sh train.py --epochs 10

# Required. One task has the CPUs and GPUs of all workers. With one task per GPU, a worker could not see the devices of
# the others, and NCCL would have no direct path to them.
#SBATCH --nodes=1 --ntasks-per-node=1

# Change as needed:
#SBATCH --job-name=train
#SBATCH --gpus-per-node=8 --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out

set -euo pipefail
: "${1:?what to run: sbatch single_node.sh train.py}"

srun --ntasks-per-node=1 ddprun --standalone "$@"
