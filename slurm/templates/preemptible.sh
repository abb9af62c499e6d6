#!/bin/bash
# May be preempted, and may run longer than the time limit of a job: starts again automatically.
#   sbatch preemptible.sh train.py --snapshots snapshots
#
# On SIGTERM the program saves and exits; when it starts, it resumes from what it finds.

# Required. The next run appends to the same output.
#SBATCH --ntasks-per-node=1 --requeue --open-mode=append

# Change as needed:
#SBATCH --job-name=train
#SBATCH --nodes=4 --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out
# Seconds before the time limit at which the job gets the signal. A preemption allows the partition's GraceTime
# instead.
#SBATCH --signal=TERM@180

set -euo pipefail
: "${1:?what to run: sbatch preemptible.sh train.py}"

echo "run ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
srun --ntasks-per-node=1 ddprun --requeue=on-preempt "$@"
