# shellcheck shell=bash
# Settings known only inside a job: source this in the batch script, before srun. Set variables stay.
#   source in_job.sh
#
# OMP_NUM_THREADS is not here: ddprun gives each worker its share of the step's CPUs.

# Since Slurm 22.05, srun does not inherit --cpus-per-task from sbatch.
if [[ -n "${SLURM_CPUS_PER_TASK:-}" ]]; then
  export SRUN_CPUS_PER_TASK="${SRUN_CPUS_PER_TASK:-$SLURM_CPUS_PER_TASK}"
fi
# Temporary files, including ddprun's logs, go to the node's own disk if the site provides one.
if [[ -n "${SLURM_TMPDIR:-}" ]]; then
  export TMPDIR="${TMPDIR:-$SLURM_TMPDIR}"
fi
