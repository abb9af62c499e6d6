# shellcheck shell=bash
# What is known only inside a job: to be sourced by its script, before srun. What is set already stays.
#   source in_job.sh
#
# OMP_NUM_THREADS is not here: ddprun gives each worker its share of the step's CPUs.

# Since Slurm 22.05 srun does not take --cpus-per-task over from sbatch.
if [[ -n "${SLURM_CPUS_PER_TASK:-}" ]]; then
  export SRUN_CPUS_PER_TASK="${SRUN_CPUS_PER_TASK:-$SLURM_CPUS_PER_TASK}"
fi
# Temporary files, with ddprun's logs among them, on the node's own disk, where the site gives one.
if [[ -n "${SLURM_TMPDIR:-}" ]]; then
  export TMPDIR="${TMPDIR:-$SLURM_TMPDIR}"
fi
