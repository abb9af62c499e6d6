# shellcheck shell=bash
# Sourced by local_cluster: slurm.conf, and the daemons of munge and Slurm.

# --- configuration -----------------------------------------------------------------

write_config() {
  local -n set_=$1
  local gpus=$2 cpus=$3 cgroup=$4 user key name i gres='' memory=4000
  user=$(id -un)
  ((gpus == 0)) || gres=" Gres=gpu:$gpus"

  # Later keys of set_ (from --set) replace these.
  local -A conf=(
    [ClusterName]=ddprun
    [SlurmctldHost]="$CTL_HOST($CTL_ADDR)"
    [SlurmUser]=$user
    [SlurmdUser]=$user
    [AuthType]=auth/munge
    [AuthInfo]="socket=$RUN/munge.socket"
    [CredType]=cred/munge
    [StateSaveLocation]=$SPOOL/ctld
    [SlurmdSpoolDir]=$SPOOL/%n
    [SlurmctldPidFile]=$RUN/slurmctld-self.pid
    [SlurmdPidFile]=$RUN/slurmd-%n-self.pid
    [SlurmctldLogFile]=$LOG/slurmctld.log
    [SlurmdLogFile]=$LOG/slurmd-%n.log
    # Without cgroups or an accounting database: works in any container.
    [ProctrackType]=proctrack/linuxproc
    [TaskPlugin]=task/none
    [JobAcctGatherType]=jobacct_gather/none
    [AccountingStorageType]=accounting_storage/none
    [SwitchType]=switch/none
    [MpiDefault]=none
    # Nodes may claim more CPUs and memory than the machine has.
    [SlurmdParameters]=config_overrides
    [SelectType]=select/cons_tres
    [SelectTypeParameters]=CR_Core
    [PreemptType]=preempt/partition_prio
    [PreemptMode]=REQUEUE
    [ReturnToService]=2
    # Short times, so that tests of failures are short as well.
    [KillWait]=5
    [SlurmdTimeout]=10
    [SlurmctldTimeout]=10
    [SchedulerParameters]="sched_interval=2,bf_interval=2"
    [MinJobAge]=300
  )
  ((gpus == 0)) || conf[GresTypes]=gpu
  if ((cgroup)); then
    conf[ProctrackType]=proctrack/cgroup
    conf[TaskPlugin]=task/cgroup
    # Memory must be something that jobs are given, or --mem would limit nothing.
    conf[SelectTypeParameters]=CR_Core_Memory
    conf[DefMemPerCPU]=$memory
    # Without its first two lines, Slurm looks for a hierarchy named "freezer(null)".
    cat >"$STATE/etc/cgroup.conf" <<CGROUP
CgroupPlugin=cgroup/v1
CgroupMountpoint=$CGROUPS
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedSwapSpace=0
CGROUP
    : >"$RUN/cgroup"
  fi
  for key in "${!set_[@]}"; do conf[$key]=${set_[$key]}; done
  memory=$((memory * cpus))

  local low="PreemptMode=REQUEUE GraceTime=5"
  # Two jobs of that partition take turns on the same CPUs.
  if [[ ${conf[PreemptMode]} == *GANG* ]]; then low="PreemptMode=SUSPEND OverSubscribe=FORCE:2"; fi

  mkdir -p "$STATE/etc" "$SPOOL/ctld"
  {
    for key in "${!conf[@]}"; do echo "$key=${conf[$key]}"; done | sort
    i=0
    while read -r name; do
      mkdir -p "$NODES/$name" "$SPOOL/$name"
      echo "$i" >"$NODES/$name/index"
      echo "NodeName=$name NodeAddr=$(node_addr "$i") CPUs=$cpus Sockets=1 CoresPerSocket=$cpus" \
           "ThreadsPerCore=1 RealMemory=$memory$gres State=UNKNOWN"
      i=$((i + 1))
    done < <(node_names)
    echo "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF"
    echo "PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 $low"
  } >"$CONF"

  if ((gpus > 0)); then
    # Slurm wants device files; the number at the end of the name becomes the
    # device number.  Links, unlike new device files, need no privileges.
    mkdir -p "$STATE/dev"
    for ((i = 0; i < gpus; i++)); do ln -s /dev/null "$STATE/dev/nvidia$i"; done
    while read -r name; do
      echo "NodeName=$name Name=gpu File=$STATE/dev/nvidia[0-$((gpus - 1))] Flags=nvidia_gpu_env"
    done < <(node_names) >"$STATE/etc/gres.conf"
    ((gpus > 1)) || sed -i 's/\[0-0\]/0/' "$STATE/etc/gres.conf"
  fi

  {
    echo "127.0.0.1 localhost"
    echo "::1 localhost ip6-localhost"
    echo "$CTL_ADDR $CTL_HOST"
    echo "$CTL_ADDR6 $CTL_HOST-ip6"
    while read -r name; do
      i=$(index_of "$name")
      echo "$(node_addr "$i") $name"
      echo "$(node_addr6 "$i") $name-ip6"
    done < <(node_names)
  } >"$STATE/etc/hosts"
  echo "nameserver 127.0.0.1" >"$STATE/etc/resolv.conf"
}

# --- daemons -----------------------------------------------------------------------

# start_daemon NAME COMMAND...: run COMMAND, which stays in the foreground, on the
# login node, detached from our terminal, pipes and lock.
start_daemon() {
  local name=$1 pid; shift
  pid=$(ctl_pid)
  # As none of exec, env, setsid and nsenter forks here, $! is the daemon itself.
  exec env -i PATH="$PATH" LANG=C SLURM_CONF="$CONF" \
    setsid nsenter -t "$pid" -n -m -u -i -r -- "$@" \
    </dev/null >>"$LOG/$name.out" 2>&1 9>&- &
  record "$name" $!
  disown $!
}

start_munged() {
  local tries=200
  mkdir -p "$STATE/etc/munge"
  chmod 700 "$STATE/etc/munge"
  mungekey --create --keyfile "$STATE/etc/munge/key"
  start_daemon munged munged --foreground --key-file="$STATE/etc/munge/key" \
    --socket="$RUN/munge.socket" --pid-file="$RUN/munged-self.pid" \
    --seed-file="$STATE/etc/munge/seed" --num-threads=4
  until [[ -S $RUN/munge.socket ]]; do
    if ((tries-- <= 0)) || ! pid_of munged >/dev/null; then
      tail -n 5 "$LOG/munged.out" >&2 || true; die "munged did not start"
    fi
    sleep 0.02
  done
}

start_slurmctld() {
  local tries=200
  start_daemon slurmctld slurmctld -D -f "$CONF"
  until slurm scontrol ping 2>/dev/null | grep -q 'is UP'; do
    if ((tries-- <= 0)) || ! pid_of slurmctld >/dev/null; then
      tail -n 5 "$LOG/slurmctld.out" >&2 || true
      die "slurmctld did not start"
    fi
    sleep 0.05
  done
}

start_slurmd() {
  local name=$1
  # The daemon puts itself into the background; process 1 of the node adopts it.
  in_node "$name" env -i PATH="$PATH" LANG=C SLURM_CONF="$CONF" setsid slurmd -N "$name" -f "$CONF" \
    </dev/null >>"$LOG/slurmd-$name.out" 2>&1 9>&- || slurmd_failed "$name"
}

slurmd_failed() {
  grep -hE 'error|fatal' "$LOG/slurmd-$1.log" "$LOG/slurmd-$1.out" 2>/dev/null | tail -n 5 >&2 || true
  die "slurmd of $1 did not start"
}

# Process id of a node's slurmd, as seen inside the node.
slurmd_pid() {
  local pid
  pid_of "node-$1" >/dev/null || return 1
  pid=$(cat "$RUN/slurmd-$1-self.pid" 2>/dev/null) || return 1
  [[ $(in_node "$1" cat "/proc/$pid/comm" 2>/dev/null) == slurmd* ]] || return 1
  echo "$pid"
}
