# shellcheck shell=bash
# For nodes with InfiniBand. What is set already stays.
#   source infiniband.sh

# NCCL's first meeting goes by IP, with InfiniBand too; not by docker's bridge, which leads nowhere.
export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-^docker,lo}"
# InfiniBand is used. See that no 1 is left over from elsewhere: that works too, many times slower.
export NCCL_IB_DISABLE="${NCCL_IB_DISABLE:-0}"
# All adapters of this driver; `ibstat -l` names those of a node.
export NCCL_IB_HCA="${NCCL_IB_HCA:-mlx5}"
# Says what goes wrong, and nothing else.
export NCCL_DEBUG="${NCCL_DEBUG:-WARN}"
