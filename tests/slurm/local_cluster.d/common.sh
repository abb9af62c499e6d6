# shellcheck shell=bash
# Sourced by local_cluster: where things lie, and the words that all of it uses.

# --- layout of the state directory ------------------------------------------------

CONF=$STATE/etc/slurm.conf   # what SLURM_CONF points to
RUN=$STATE/run               # process records and sockets; exists while the cluster is up
LOG=$STATE/log               # kept after "down", removed by the next "up"
SPOOL=$STATE/spool
NODES=$STATE/nodes           # one directory per node: index, boot_id, machine-id
SHARED=$STATE/shared         # visible at one path on every node, also with --private-tmp

CGROUPS=/sys/fs/cgroup       # cgroup v1 hierarchies, used with --cgroup only

# --- addresses -------------------------------------------------------------------

BRIDGE=br0
CTL_HOST=ctl
CTL_ADDR=10.123.255.254
CTL_ADDR6=fd00:dd::fffe
node_addr()  { echo "10.123.$(($1 / 250)).$(($1 % 250 + 1))"; }
node_addr6() { printf 'fd00:dd::%x\n' "$(($1 + 1))"; }
node_mac()   { printf '02:dd:00:00:%02x:%02x\n' "$(($1 / 256))" "$(($1 % 256))"; }
NOWHERE_MAC=02:de:ad:00:00:00            # no port has it: frames sent to it vanish

# --- small helpers -----------------------------------------------------------------

say()  { printf 'local_cluster: %s\n' "$*" >&2; }
die()  { say "$*"; exit 1; }

uuid() { cat /proc/sys/kernel/random/uuid; }

# The start time of a process guards against a process id that was used again.
start_time() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  read -r -a stat <<<"${stat##*) }"
  echo "${stat[19]}"
}

# A zombie has ended already; only its parent has yet to notice.
running() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  [[ ${stat##*) } != Z* ]]
}

record() { echo "$2 $(start_time "$2")" >"$RUN/$1.pid"; }
forget() { rm -f "$RUN/$1.pid"; }

# Prints the process id recorded under a name, if that very process still runs.
pid_of() {
  local pid started
  [[ -r $RUN/$1.pid ]] || return 1
  read -r pid started <"$RUN/$1.pid" || return 1
  [[ $(start_time "$pid") == "$started" ]] && running "$pid" && echo "$pid"
}

wait_gone() {   # wait_gone SECONDS PID...
  local tries=$(($1 * 20)) pid; shift
  for pid; do
    while running "$pid"; do
      ((tries-- > 0)) || return 1
      sleep 0.05
    done
  done
}

is_up()    { [[ -r $RUN/outside ]]; }
need_up()  { is_up || die "no cluster in $STATE"; }
need_node()  { [[ -n ${1:-} && -r $NODES/$1/index ]] || die "no such node: '${1:-}'"; }
node_names() { cat "$STATE/etc/names"; }
index_of()   { cat "$NODES/$1/index"; }

# Debian package that brings a program.
package_of() {
  case $1 in
    slurmctld|slurmd) echo "$1" ;;
    srun|scontrol|sinfo|squeue) echo slurm-client ;;
    munged|mungekey) echo munge ;;
    ip|bridge) echo iproute2 ;;
    *) echo util-linux ;;
  esac
}

check_programs() {
  local program missing=()
  for program; do
    command -v "$program" >/dev/null || missing+=("$(package_of "$program")")
  done
  ((${#missing[@]} == 0)) && return
  say "missing Debian packages: $(printf '%s\n' "${missing[@]}" | sort -u | tr '\n' ' ')"
  exit 3
}
