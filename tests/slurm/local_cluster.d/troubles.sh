# shellcheck shell=bash
# Sourced by local_cluster: the ends of nodes and daemons, and the faults of the network.

# --- single nodes --------------------------------------------------------------------

# Ends every process of the given nodes at once and removes their links.
fell_nodes() {
  local name pid pids=()
  for name; do
    # The process that spawned the node ends with it; kill that one only if it is
    # all there is as yet.
    mapfile -t -O "${#pids[@]}" pids < <(pid_of "node-$name"; pid_of "spawn-$name")
    pid=$(pid_of "node-$name" || pid_of "spawn-$name") || continue
    kill -KILL "$pid" 2>/dev/null || true
  done
  wait_gone 10 "${pids[@]}" || say "warning: a node does not end; one of processes ${pids[*]}"
  for name; do
    forget "node-$name"
    forget "spawn-$name"
    rm -f "$RUN/slurmd-$name-self.pid"
    if pid_of "node-$CTL_HOST" >/dev/null; then
      in_ctl ip link del "p$(index_of "$name")" 2>/dev/null || true
    fi
  done
}

cmd_kill_node() {
  local name=${1:-} how=${2:-}
  need_up; need_node "$name"
  [[ $how == --fin ]] || silence "$name" 2>/dev/null || true
  fell_nodes "$name"
}

cmd_kill_slurmd() {
  local name=${1:-} pid
  need_up; need_node "$name"
  pid=$(slurmd_pid "$name") || die "no slurmd runs on $name"
  in_node "$name" bash -c "kill -KILL $pid"
}

cmd_start_node() {
  local name=${1:-}
  umask 022
  need_up; need_node "$name"
  if ! pid_of "node-$name" >/dev/null; then
    spawn_namespace "$name"
    await_namespace "$name"
    plug_in "$name"
    cmd_heal "$name"   # its peers may still think it isolated
  fi
  if slurmd_pid "$name" >/dev/null; then say "slurmd already runs on $name"; return; fi
  start_slurmd "$name"
}

# --- network faults --------------------------------------------------------------------

# A disabled bridge port drops all frames, yet the node keeps its carrier: what a
# failed switch or a wrong filter looks like.
silence() { in_ctl bridge link set dev "p$(index_of "$1")" state 0; }

addresses() {   # of a node or of ctl, seen by its peers
  if [[ $1 == "$CTL_HOST" ]]; then echo "$CTL_ADDR $CTL_ADDR6"
  else echo "$(node_addr "$(index_of "$1")") $(node_addr6 "$(index_of "$1")")"; fi
}

# neighbour add|del NAME PEER: NAME takes PEER to be at an address nobody has.
neighbour() {
  local action=$1 name=$2 peer=$3 address run=(in_net "$2") dev=eth0
  [[ $name != "$CTL_HOST" ]] || run=(in_ctl) dev=$BRIDGE
  for address in $(addresses "$peer"); do
    if [[ $action == add ]]; then
      "${run[@]}" ip neigh replace "$address" lladdr "$NOWHERE_MAC" dev "$dev" nud permanent
    elif "${run[@]}" ip neigh show to "$address" dev "$dev" 2>/dev/null | grep -q "$NOWHERE_MAC"; then
      "${run[@]}" ip neigh del "$address" dev "$dev"
    fi
  done
}

need_live() { need_node "$1"; pid_of "node-$1" >/dev/null || die "node $1 is dead"; }

cmd_isolate() {
  local name=${1:-} peer=${2:-}
  need_up; need_live "$name"
  if [[ -z $peer ]]; then silence "$name"; return; fi
  [[ $peer == "$CTL_HOST" ]] || need_live "$peer"
  neighbour add "$name" "$peer"
  neighbour add "$peer" "$name"
}

cmd_link_down() {
  need_up; need_live "${1:-}"
  in_ctl ip link set "p$(index_of "$1")" down
}

cmd_heal() {
  local name=${1:-} port peer
  need_up; need_live "$name"
  port=p$(index_of "$name")
  in_ctl ip link set "$port" up
  in_ctl bridge link set dev "$port" state 3
  for peer in "$CTL_HOST" $(node_names); do
    [[ $peer != "$name" ]] || continue
    [[ $peer == "$CTL_HOST" ]] || pid_of "node-$peer" >/dev/null || continue
    neighbour del "$name" "$peer"
    neighbour del "$peer" "$name"
  done
  clear_loss "$name"
}

clear_loss() {
  in_net "$1" tc qdisc del dev eth0 root 2>/dev/null || true
  in_net "$1" nft delete table inet local_cluster 2>/dev/null || true
}

cmd_loss() {
  local name=${1:-} percent=${2:-}
  need_up; need_live "$name"
  [[ $percent =~ ^[0-9]{1,2}$ ]] || die "loss: give a whole number of percent below 100"
  clear_loss "$name"
  ((percent > 0)) || return 0
  # nft can drop in both directions; netem only what the node sends.
  if command -v nft >/dev/null; then
    in_net "$name" nft -f - <<RULES
table inet local_cluster {
  chain received { type filter hook input priority 0; iifname "eth0" numgen random mod 100 < $percent drop; }
  chain sent { type filter hook output priority 0; oifname "eth0" numgen random mod 100 < $percent drop; }
}
RULES
  else
    in_net "$name" tc qdisc add dev eth0 root netem loss "$percent%" ||
      die "loss: needs the Debian package nftables, or a kernel with netem"
  fi
}
