# shellcheck shell=bash
# For a job whose workers do not find each other, hang or crash. What is set already stays, so this comes
# before the preset of the network.
#   source debug.sh; source ethernet.sh

# Which interfaces, adapters and paths NCCL chooses, and which of its variables it saw;
export NCCL_DEBUG="${NCCL_DEBUG:-INFO}"
export NCCL_DEBUG_SUBSYS="${NCCL_DEBUG_SUBSYS:-INIT,NET,GRAPH,ENV}"
# in a file for each host (%h) and process (%p), since it is much.
export NCCL_DEBUG_FILE="${NCCL_DEBUG_FILE:-nccl.%h.%p.log}"
# torch compares what the ranks are about to reduce, and names the one that is out of step. Slow.
export TORCH_DISTRIBUTED_DEBUG="${TORCH_DISTRIBUTED_DEBUG:-DETAIL}"
# A crash in native code shows Python's stack.
export PYTHONFAULTHANDLER="${PYTHONFAULTHANDLER:-1}"
