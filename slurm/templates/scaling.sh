#!/bin/bash
# Measures how a training scales: the same program on 1 GPU, on 2, 4 and 8 of one node, and on 2, 4 and 8 nodes with 2
# GPUs each. Seven jobs, ddp_G1N1 to ddp_2G8N, each with its output in log/.
#   bash scaling.sh submit train.py --epochs 3

# Required:
#SBATCH --ntasks-per-node=1

# Change as needed:
#SBATCH --cpus-per-gpu=4
#SBATCH --time=04:00:00
#SBATCH --output=log/%x-%j.out
matrix='
ddp_G1N1 1 1
ddp_2G1N 2 1
ddp_4G1N 4 1
ddp_8G1N 8 1
ddp_2G2N 2 2
ddp_2G4N 2 4
ddp_2G8N 2 8'   # name, GPUs per node, nodes

set -euo pipefail
: "${1:?what to run: bash scaling.sh submit train.py}"

if [[ $1 == submit ]]; then
  mkdir -p log   # Slurm does not create it, and a job without its output file fails silently
  while read -r name gpus nodes; do
    sbatch --job-name="$name" --gpus-per-node="$gpus" --nodes="$nodes" "$0" "${@:2}"
  done <<<"${matrix#?}"
  exit
fi

# One thread per worker everywhere; otherwise fewer workers would each be faster.
export OMP_NUM_THREADS=1 PYTHONFAULTHANDLER=1
srun --ntasks-per-node=1 --kill-on-bad-exit=1 ddprun "$@"
