#!/bin/bash
# A task for each GPU, started by Slurm itself: for programs that find their rank in Slurm's variables,
# as ddptrain does. Without ddprun nobody starts them again.
#   sbatch without_launcher.sh ddptrain --epochs 10

# What belongs to the recipe.
#SBATCH --exclusive --mem=0

# What is yours to change: as many tasks as GPUs.
#SBATCH --job-name=train
#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 --cpus-per-task=2
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out

set -euo pipefail
: "${1:?what to run: sbatch without_launcher.sh ddptrain}"

# Where tasks are given a GPU each (--gpus-per-task, --gpu-bind), a task does not see the others' GPUs, and NCCL has no
# direct way to them: add --gres-flags=allow-task-sharing to srun. Where Slurm does not know that yet, --gpu-bind=none.

# Since Slurm 22.05 srun does not take --cpus-per-task over from sbatch. And the ranks that are left
# when one has ended would wait for it.
srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=1 "$@"
