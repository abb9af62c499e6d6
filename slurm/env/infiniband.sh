# shellcheck shell=bash
# For nodes with InfiniBand. Variables that are set stay as they are.
#   source infiniband.sh

# NCCL connects over IP first, even with InfiniBand; docker's bridge does not reach other nodes.
export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-^docker,lo}"
# Use InfiniBand. Check that no 1 is left from elsewhere: that also works, but many times slower.
export NCCL_IB_DISABLE="${NCCL_IB_DISABLE:-0}"
# All adapters of this driver; `ibstat -l` lists those of a node.
export NCCL_IB_HCA="${NCCL_IB_HCA:-mlx5}"
# Print errors and warnings only.
export NCCL_DEBUG="${NCCL_DEBUG:-WARN}"
