# shellcheck shell=bash
# For nodes that have only Ethernet. Variables that are set stay as they are. For another interface name:
#   GLOO_SOCKET_IFNAME=ens3; source ethernet.sh

# Otherwise Gloo uses the address of the host name, which Debian sets to 127.0.1.1.
export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-eth0}"
# The same for NCCL. "=" means exactly this name, not also longer names such as eth01.
export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-=$GLOO_SOCKET_IFNAME}"
# Do not look for InfiniBand.
export NCCL_IB_DISABLE="${NCCL_IB_DISABLE:-1}"
# Print errors and warnings only.
export NCCL_DEBUG="${NCCL_DEBUG:-WARN}"
