#!/bin/bash
# A job array: each element runs the program with one row of a file of arguments.
#   sbatch array.sh grid.txt train.py --epochs 10
#
# grid.txt: --lr 0.1 --seed 1
#           --lr 0.2 --seed 1

# Required:
#SBATCH --nodes=1 --ntasks-per-node=1

# Change as needed. One element for each row of the file, counted from 1: here 16, of which 4 run at the same
# time.
#SBATCH --array=1-16%4
#SBATCH --job-name=grid
#SBATCH --gpus-per-node=2 --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --output=%x-%A_%a.out

set -euo pipefail
: "${2:?what to run: sbatch array.sh grid.txt train.py}"
grid=$1
shift

# Arguments after the program come last, so they override the file.
srun --ntasks-per-node=1 ddprun --standalone --grid "$grid" "$@"
