# shellcheck shell=bash
# For nodes with Ethernet alone. What is set already stays, so an interface of another name is chosen by
#   GLOO_SOCKET_IFNAME=ens3; source ethernet.sh

# Without it, Gloo takes the address of the host's name, which Debian makes 127.0.1.1.
export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-eth0}"
# The same for NCCL. "=" means this name, not all that begin so, such as eth01.
export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-=$GLOO_SOCKET_IFNAME}"
# Does not look for InfiniBand.
export NCCL_IB_DISABLE="${NCCL_IB_DISABLE:-1}"
# Says what goes wrong, and nothing else.
export NCCL_DEBUG="${NCCL_DEBUG:-WARN}"
