#!/bin/bash
# Several small runs side by side in one job, each with its own GPU and CPUs.
#   sbatch packing.sh train.py --epochs 10

# Required:
#SBATCH --nodes=1

# Change as needed:
#SBATCH --job-name=pack
#SBATCH --ntasks=4 --cpus-per-task=4 --mem-per-cpu=4G --gpus-per-node=4
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.out
flag=--seed   # the program gets this flag with the number of its run: 0, 1, 2, ...

set -euo pipefail
: "${1:?what to run: sbatch packing.sh train.py}"

# A step that takes more than its share makes the others wait: hence --exact, --gres instead of --gpus=1, and memory per
# CPU, not per node.
steps=()
for ((run = 0; run < SLURM_NTASKS; run++)); do
  srun --nodes=1 --ntasks=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" --gres=gpu:1 --exact \
    --output="$SLURM_JOB_NAME-$SLURM_JOB_ID-$run.out" \
    ddprun --standalone --nproc-per-node 1 "$@" "$flag" "$run" &
  steps+=("$!")
done

# All steps run to their end; the status of the job is that of a step that failed.
status=0
for step in "${steps[@]}"; do
  wait "$step" || status=$?
done
exit "$status"
