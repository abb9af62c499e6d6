#!/bin/bash
# One task per GPU, started by Slurm itself, for programs that read their rank from Slurm's variables, as ddptrain does.
# Without ddprun, nothing restarts them.
#   sbatch without_launcher.sh ddptrain --epochs 10

# Required:
#SBATCH --exclusive --mem=0

# Change as needed. As many tasks as GPUs:
#SBATCH --job-name=train
#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 --cpus-per-task=2
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out

set -euo pipefail
: "${1:?what to run: sbatch without_launcher.sh ddptrain}"

# If each task gets only one GPU (--gpus-per-task, --gpu-bind), a task does not see the GPUs of the others, and NCCL has
# no direct path to them: add --gres-flags=allow-task-sharing to srun, or --gpu-bind=none in older versions of Slurm.

# Since Slurm 22.05, srun does not inherit --cpus-per-task from sbatch. --kill-on-bad-exit: after one rank has ended,
# the others would wait for it.
srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=1 "$@"
