# shellcheck shell=bash
# torch remembers the latest collectives of NCCL, and writes them down when one takes too long. Cheap
# enough to be left on. What is set already stays.
#   source flight_recorder.sh

# How many collectives; each of the two is of no use without the other.
export TORCH_FR_BUFFER_SIZE="${TORCH_FR_BUFFER_SIZE:-20000}"
export TORCH_NCCL_DUMP_ON_TIMEOUT="${TORCH_NCCL_DUMP_ON_TIMEOUT:-1}"
