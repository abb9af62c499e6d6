# shellcheck shell=bash
# Sourced by local_cluster: namespaces that stand for machines.

# --- running things inside the namespaces ------------------------------------------

ctl_pid()  { pid_of "node-$CTL_HOST" || die "the login node is gone; use 'down'"; }
node_pid() { pid_of "node-$1" || die "node $1 is dead"; }

in_ctl()  { local pid; pid=$(ctl_pid) && nsenter -t "$pid" -n -m -u -i -r -- "$@"; }
in_node() { local pid; pid=$(node_pid "$1") && nsenter -t "$pid" -n -m -u -i -r -p -- "${@:2}"; }
in_net()  { local pid; pid=$(node_pid "$1") && nsenter -t "$pid" -n -- "${@:2}"; }

# First process of a set of namespaces.  For a node it is process 1 of the node:
# when it dies, the kernel kills all that runs there.
namespace_init() {
  local name=$1 outer dir tree claim='' tries=600
  # /proc is still the machine's, so this is our process id as seen from outside.
  read -r outer _ </proc/self/stat
  printf '%s' "$name" >/proc/sys/kernel/hostname
  # Where every program but Slurm looks for munged.
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir /run/munge
  ln -s "$RUN/munge.socket" /run/munge/munge.socket.2
  mount --bind "$STATE/etc/hosts" /etc/hosts
  # No name server: a look-up of an unknown name fails at once, not by time-out.
  mount --bind "$STATE/etc/resolv.conf" /etc/resolv.conf 2>/dev/null || true
  ip link set lo up
  # A /sys of our own, so that /sys/class/net lists the node's interfaces.
  dir=$NODES/$name/cgroup
  mkdir -p "$dir"
  mount --rbind /sys/fs/cgroup "$dir" 2>/dev/null || true
  if mount -t sysfs sysfs /sys 2>/dev/null; then
    mount --move "$dir" /sys/fs/cgroup 2>/dev/null || true
  fi
  if [[ $name != "$CTL_HOST" ]]; then
    mount -t proc proc /proc
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    # What programs use to tell hosts and boots apart.
    uuid >"$NODES/$name/boot_id"
    mount --bind "$NODES/$name/boot_id" /proc/sys/kernel/random/boot_id 2>/dev/null || true
    [[ -s $NODES/$name/machine-id ]] || uuid | tr -d - >"$NODES/$name/machine-id"
    mount --bind "$NODES/$name/machine-id" /etc/machine-id 2>/dev/null || true
    if [[ -e $STATE/etc/private-tmp ]]; then
      tree=$NODES/$name/tmp
      mkdir -p "$tree"
      mount -t tmpfs -o mode=1777 tmpfs "$tree"
      if [[ $STATE == /tmp/* ]]; then
        mkdir -p "$tree/${STATE#/tmp/}"
        mount --bind "$STATE" "$tree/${STATE#/tmp/}"
      fi
      mount --move "$tree" /tmp
    fi
  fi
  echo "$outer" >"$RUN/init-$name"
  # If "up" dies before it has recorded us, nobody will ever stop us.
  until [[ $claim == "$outer" ]]; do
    ((tries-- > 0)) || exit 1
    sleep 0.1
    read -r claim _ <"$RUN/node-$name.pid" || true
  done 2>/dev/null
  # Not exec: bash, as process 1 of a node, collects orphans that end.
  while :; do sleep infinity & wait $! || true; done
}

# Starts the namespaces of "ctl" or of a node; await_namespace finishes the job.
spawn_namespace() {
  local name=$1 flags=(--net --mount --uts --ipc)
  [[ $name == "$CTL_HOST" ]] || flags+=(--pid --fork --kill-child)
  rm -f "$RUN/init-$name"
  # The caller's environment is nothing that daemons should hand on to jobs.
  exec env -i PATH="$PATH" LANG=C DDPRUN_SLURM_DIR="$STATE" \
    setsid unshare "${flags[@]}" bash "$SELF" __init "$name" \
    </dev/null >>"$LOG/init-$name.log" 2>&1 9>&- &
  record "spawn-$name" $!
  disown $!
}

await_namespace() {
  local name=$1 tries=400
  until [[ -s $RUN/init-$name ]]; do
    ((tries-- > 0)) || { cat "$LOG/init-$name.log" >&2; die "namespaces of $name did not start"; }
    sleep 0.02
  done
  record "node-$name" "$(cat "$RUN/init-$name")"
}

# A veth pair: one end a port of ctl's bridge, the other end the node's eth0.
plug_in() {
  local name=$1 index port
  index=$(index_of "$name")
  port=p$index
  in_ctl ip -batch - <<LINKS
link add $port type veth peer name eth0 address $(node_mac "$index") netns $(node_pid "$name")
link set $port master $BRIDGE up
LINKS
  in_net "$name" ip -batch - <<LINKS
link set eth0 up
addr add $(node_addr "$index")/16 dev eth0
route add default via $CTL_ADDR
LINKS
  in_net "$name" ip addr add "$(node_addr6 "$index")/64" dev eth0 nodad 2>/dev/null || true
}
