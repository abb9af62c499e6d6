#!/bin/bash
# Runs longer than a job is allowed to, and does something of its own between two runs.
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
# Within the site's KillWait: the next run is asked for by then, and Slurm ends this one.
before_the_next_run() {
  echo "stopped before its time was over"
}

set -euo pipefail
: "${1:?what to run: sbatch time_limit.sh train.py}"

echo "run ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"

# Tells the tasks of step 0. Not by kill: srun, told SIGTERM, would have them killed at once.
was_told=no is_over=no
trap 'is_interrupted=yes was_told=yes; scancel --signal=TERM "$SLURM_JOB_ID.0" || :' USR1
# Slurm's own, when it ends the job: the step has ended by then, or is told as well. After USR1 it
# has, and the next run is asked for. Not to be waited for then: srun may take longer than KillWait.
trap 'is_interrupted=yes is_over=$was_told was_told=yes' TERM

# A trap runs only while the shell waits by itself, and ends that wait.
srun --ntasks-per-node=1 ddprun --requeue=on-preempt "$@" &
step=$!
is_interrupted=yes
while [[ $is_interrupted == yes && $is_over == no ]]; do
  is_interrupted=no status=0
  wait "$step" || status=$?
done

# From here on what this shell starts ignores it, too.
trap '' TERM
if ((status != 0)) && [[ $was_told == yes || $status == 75 ]]; then before_the_next_run; fi
exit "$status"
