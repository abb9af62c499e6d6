#!/bin/bash
# May be preempted, and may run longer than a job is allowed to: starts again by itself.
#   sbatch preemptible.sh train.py --snapshots snapshots
#
# On SIGTERM the program saves and ends; when it starts it takes up what it finds.

# What belongs to the recipe. The next run goes on with the same output.
#SBATCH --ntasks-per-node=1 --requeue --open-mode=append

# What is yours to change:
#SBATCH --job-name=train
#SBATCH --nodes=4 --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out
# How many seconds before the end of its time the job is told. A preemption gives the partition's
# GraceTime instead.
#SBATCH --signal=TERM@180

set -euo pipefail
: "${1:?what to run: sbatch preemptible.sh train.py}"

echo "run ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
srun --ntasks-per-node=1 ddprun --requeue=on-preempt "$@"
