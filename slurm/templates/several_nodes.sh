#!/bin/bash
# Several nodes with GPUs: one ddprun on each node, one worker for each GPU.
#   sbatch several_nodes.sh train.py --epochs 10

# Required: whole nodes, with all of their CPUs and memory.
#SBATCH --ntasks-per-node=1 --exclusive --mem=0

# Change as needed:
#SBATCH --job-name=train
#SBATCH --nodes=4 --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out

set -euo pipefail
: "${1:?what to run: sbatch several_nodes.sh train.py}"

# No node can be spared: if one ddprun is killed, Slurm ends the others.
srun --ntasks-per-node=1 --kill-on-bad-exit=1 ddprun "$@"
