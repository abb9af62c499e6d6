#!/bin/bash
# Runs longer than a job is allowed to, and does something of its own between the notice and the next run.
#   sbatch time_limit.sh train.py --snapshots snapshots
#
# On SIGTERM the program saves and ends; when it starts it takes up what it finds.

# What belongs to the recipe. The next run goes on with the same output.
#SBATCH --ntasks-per-node=1 --requeue --open-mode=append

# What is yours to change:
#SBATCH --job-name=train
#SBATCH --nodes=4 --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out
# How many seconds before the end of its time this shell is told, and nobody else (B:).
#SBATCH --signal=B:USR1@180
requeues=100   # at most
before_the_next_run() {
  echo "stopped before its time was over"
}

set -euo pipefail
: "${1:?what to run: sbatch time_limit.sh train.py}"

run=${SLURM_RESTART_COUNT:-0}
echo "run $run on $SLURM_JOB_NODELIST"

# Tells the tasks of step 0. Not by kill: srun, told SIGTERM, would have them killed at once.
trap 'is_told=yes; scancel --signal=TERM "$SLURM_JOB_ID.0" || :' USR1

# A trap runs only while the shell waits by itself, and ends that wait.
srun --ntasks-per-node=1 ddprun "$@" &
step=$!
is_told=yes
while [[ $is_told == yes ]]; do
  is_told=no status=0
  wait "$step" || status=$?
done

if ((status == 143 || status == 75)) && ((run < requeues)); then
  before_the_next_run
  # Then waits for Slurm to end this shell: an exit of its own could come first.
  scontrol requeue "$SLURM_JOB_ID" && sleep 120
fi
exit "$status"
