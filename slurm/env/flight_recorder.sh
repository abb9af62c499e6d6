# shellcheck shell=bash
# torch records the latest NCCL collectives, and writes them to a file if one takes too long. Cheap enough to stay on.
# Variables that are set stay as they are.
#   source flight_recorder.sh

# Number of recorded collectives. Each of the two variables needs the other.
export TORCH_FR_BUFFER_SIZE="${TORCH_FR_BUFFER_SIZE:-20000}"
export TORCH_NCCL_DUMP_ON_TIMEOUT="${TORCH_NCCL_DUMP_ON_TIMEOUT:-1}"
