# shellcheck shell=bash
# For a job whose workers do not find each other, hang or crash. Variables that are set stay as they are, so source this
# before the network preset.
#   source debug.sh; source ethernet.sh

# NCCL prints the interfaces, adapters and paths that it chooses, and the variables that it reads,
export NCCL_DEBUG="${NCCL_DEBUG:-INFO}"
export NCCL_DEBUG_SUBSYS="${NCCL_DEBUG_SUBSYS:-INIT,NET,GRAPH,ENV}"
# to a file for each host (%h) and process (%p), because it is a lot.
export NCCL_DEBUG_FILE="${NCCL_DEBUG_FILE:-nccl.%h.%p.log}"
# torch compares what the ranks are about to reduce, and names the rank that is out of step. Slow.
export TORCH_DISTRIBUTED_DEBUG="${TORCH_DISTRIBUTED_DEBUG:-DETAIL}"
# After a crash in native code, print Python's stack.
export PYTHONFAULTHANDLER="${PYTHONFAULTHANDLER:-1}"
