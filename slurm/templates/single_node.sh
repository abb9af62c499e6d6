#!/bin/bash
# One node, a worker for each of its GPUs.
#   sbatch single_node.sh train.py --epochs 10

# What belongs to the recipe. One task has the CPUs and GPUs of all its workers. With a task for each
# GPU, a worker could not see the others' devices, and NCCL would have no direct way to them.
#SBATCH --nodes=1 --ntasks-per-node=1

# What is yours to change:
#SBATCH --job-name=train
#SBATCH --gpus-per-node=8 --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out

set -euo pipefail
: "${1:?what to run: sbatch single_node.sh train.py}"

srun --ntasks-per-node=1 ddprun --standalone "$@"
