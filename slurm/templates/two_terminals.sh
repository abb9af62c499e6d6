#!/bin/bash
# Two nodes by hand, each from its own terminal: one ddprun on each, one worker for each of its GPUs. First get a node
# in each terminal:
#   srun --nodes=1 --ntasks=1 --gpus-per-node=4 --cpus-per-task=8 --time=1:00:00 --pty bash
# In the first terminal, which prints its address and waits, then in the second:
#   bash two_terminals.sh 0 train.py --epochs 10
#   bash two_terminals.sh 1 ADDRESS train.py --epochs 10

# Required if you submit it: two jobs of one node.
#SBATCH --nodes=1 --ntasks=1

# Change as needed:
#SBATCH --job-name=train
#SBATCH --gpus-per-node=4 --cpus-per-task=8
#SBATCH --time=1:00:00
#SBATCH --output=%x-%j.out

set -euo pipefail
: "${2:?which node this is, and what to run: bash two_terminals.sh 0 train.py, there bash two_terminals.sh 1 ADDRESS train.py}"

rank=$1
shift
if [[ $rank = 0 ]]; then
  address=$(hostname -I | cut -d ' ' -f 1)
  echo "Master IP Address: $address"
else
  address=$1
  shift
fi
# The same port on both nodes; it must be free on the first node.
ddprun --nnodes=2 --node-rank="$rank" --master-addr="$address" --master-port="${MASTER_PORT:-29500}" "$@"
