#!/bin/bash
# One node more than needed: it stands by, and replaces a node that is lost.
#   sbatch spare_node.sh train.py --snapshots snapshots

# Required. A lost node never returns to its job, so spares must be there from the start. Without --no-kill, the loss of
# a node ends the job.
#SBATCH --ntasks-per-node=1 --exclusive --mem=0 --no-kill

# Change as needed:
#SBATCH --job-name=train
#SBATCH --nodes=4 --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out
work=2:3      # minimum and maximum of nodes that work; of 4, one is a spare
restarts=10   # restarts after failures of workers; a lost node does not count

set -euo pipefail
: "${1:?what to run: sbatch spare_node.sh train.py}"

# The step needs --no-kill as well, and must not end because one task did.
srun --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 --wait=0 \
  ddprun --nnodes "$work" --max-restarts "$restarts" "$@"
