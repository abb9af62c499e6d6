#!/bin/bash
# One node more than work: it stands by, and takes the place of a node that is lost.
#   sbatch spare_node.sh train.py --snapshots snapshots

# What belongs to the recipe. A node that is lost never comes back to its job, so spares are there from
# the start; and without --no-kill its loss is the end of the job.
#SBATCH --ntasks-per-node=1 --exclusive --mem=0 --no-kill

# What is yours to change:
#SBATCH --job-name=train
#SBATCH --nodes=4 --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out
work=2:3      # nodes that work: the fewest that will do, and the most; of 4, one is spare
restarts=10   # how often workers may fail; a node that is lost does not count

set -euo pipefail
: "${1:?what to run: sbatch spare_node.sh train.py}"

# The step has to say it as well, and must not end because one task did.
srun --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 --wait=0 \
  ddprun --nnodes "$work" --max-restarts "$restarts" "$@"
