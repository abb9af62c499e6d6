#!/bin/bash
# Workers on CPUs, a fixed number on each node, with Gloo.
#   sbatch cpu_only.sh train.py --epochs 10

# Required:
#SBATCH --ntasks-per-node=1

# Change as needed:
#SBATCH --job-name=train
#SBATCH --nodes=2 --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out
workers_per_node=4

set -euo pipefail
: "${1:?what to run: sbatch cpu_only.sh train.py}"

# OMP_NUM_THREADS is not set here: ddprun gives each worker its share of the task's CPUs.
srun --ntasks-per-node=1 ddprun --nproc-per-node "$workers_per_node" "$@"
