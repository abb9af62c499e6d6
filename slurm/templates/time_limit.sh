#!/bin/bash
# Runs longer than the time limit of a job, and runs its own commands between two runs.
#   sbatch time_limit.sh train.py --snapshots snapshots
#
# On SIGTERM the program saves and exits; when it starts, it resumes from what it finds.

# Required. The next run appends to the same output.
#SBATCH --ntasks-per-node=1 --requeue --open-mode=append

# Change as needed:
#SBATCH --job-name=train
#SBATCH --nodes=4 --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out
# Seconds before the time limit at which only this shell (B:) gets the signal.
#SBATCH --signal=B:USR1@180
# Must end within the site's KillWait: the next run is already requested, and Slurm ends this one.
before_the_next_run() {
  echo "stopped before its time was over"
}

set -euo pipefail
: "${1:?what to run: sbatch time_limit.sh train.py}"

echo "run ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"

# Signals the tasks of step 0. Not by kill: on SIGTERM, srun would kill them immediately.
was_told=no is_over=no
trap 'is_interrupted=yes was_told=yes; scancel --signal=TERM "$SLURM_JOB_ID.0" || :' USR1
# Slurm's own SIGTERM when it ends the job: the step has ended, or gets the signal as well. After USR1 it has ended, and
# the next run is requested. Do not wait then: srun may take longer than KillWait.
trap 'is_interrupted=yes is_over=$was_told was_told=yes' TERM

# A trap runs only during the shell's own wait, and interrupts it.
srun --ntasks-per-node=1 ddprun --requeue=on-preempt "$@" &
step=$!
is_interrupted=yes
while [[ $is_interrupted == yes && $is_over == no ]]; do
  is_interrupted=no status=0
  wait "$step" || status=$?
done

# Commands started from here on ignore SIGTERM, too.
trap '' TERM
if ((status != 0)) && [[ $was_told == yes || $status == 75 ]]; then before_the_next_run; fi
exit "$status"
