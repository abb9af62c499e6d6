"""Several simulated machines on one: network namespaces on a bridge whose packets a test may drop.

    with Network(3) as network:
        process = network[0].popen(["ddprun", ...])
        network.isolate(0)            # nothing from it or to it arrives, and nobody is told
        network.cut(0, 1)             # what node 0 sends to node 1 is lost; the way back is not
        network.lose(2, 0.1)          # a tenth of what node 2 sends or is sent
        network.heal()
        network[1].freeze()

Each node has an address of its own in IPv4 and IPv6, a host name of its own (n0, n1, …), and the
loopback. It sees the file system and the processes of the machine.

Namespaces are held by descriptors of this process alone. When it ends, by kill -9 too, the kernel
kills what popen() started in them and removes them with their links. When a Network is closed, it
kills everything in it, including escaped processes. Needs root, iproute2 and nft.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x00020000, 0x04000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
PATIENCE_S = 30

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def why_not():
    """Why there can be no Network here; empty if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "nft"):
        if not shutil.which(program):
            return f"{program} is not installed (apt-get install iproute2 nftables)"
    try:
        with Network(1):
            return ""
    except (OSError, RuntimeError) as error:
        return f"network namespaces cannot be made: {error}"


def skip_without_namespaces():
    """For setUpModule: the reason is printed by unittest, and once more for a log."""
    reason = why_not()
    if reason:
        print(f"SKIPPED: {reason}", flush=True)
        raise unittest.SkipTest(reason)


def all_networks():
    """(pid, inode of its network) of every process that is no zombie."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                yield int(entry), os.stat(f"/proc/{entry}/ns/net").st_ino


def is_stopped(pid):
    """Also true for a process that has ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] in "TtZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def children_of(pid):
    """The children of a process, of all its threads: an agent has one that starts workers."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as children:
            found += map(int, children.read().split())
    return found


class Namespaces:
    """A network and a host name separate from the machine's."""

    def __init__(self, name, hosts=None):
        self.name = name
        self._hosts = hosts  # what its processes find in /etc/hosts
        told, tell = os.pipe()
        held, hold = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(BaseException):
                os.close(hold)
                _check(_libc.unshare(CLONE_NEWNET | CLONE_NEWUTS), "unshare")
                host = name.encode()
                _check(_libc.sethostname(host, len(host)), "sethostname")
                os.write(tell, b"1")
                os.read(held, 1)  # until our descriptors of them are open
                status = 0
            os._exit(status)
        os.close(tell)
        os.close(held)
        try:
            if not os.read(told, 1):
                raise RuntimeError("unshare is refused (a container without CAP_SYS_ADMIN?)")
            self.net = os.open(f"/proc/{child}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            self.uts = os.open(f"/proc/{child}/ns/uts", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(told)
            os.close(hold)
            os.waitpid(child, 0)
        self.inode = os.fstat(self.net).st_ino

    def close(self):
        os.close(self.net)
        os.close(self.uts)
        self.inode = None  # the next network may get its number

    @property
    def path(self):
        """For `ip … netns`."""
        return f"/proc/{os.getpid()}/fd/{self.net}"

    def enter(self):
        """For preexec_fn."""
        _check(_libc.setns(self.net, CLONE_NEWNET), "setns")
        _check(_libc.setns(self.uts, CLONE_NEWUTS), "setns")
        if self._hosts:
            _check(_libc.unshare(CLONE_NEWNS), "unshare")
            _check(_libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount")
            _check(_libc.mount(self._hosts.encode(), b"/etc/hosts", None, MS_BIND, None), "mount")

    @contextlib.contextmanager
    def _entered(self):
        """Processes that this thread starts meanwhile run in this network. Without a preexec_fn, which would
        copy all of this process."""
        outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_libc.setns(self.net, CLONE_NEWNET), "setns")
            try:
                yield
            finally:
                _check(_libc.setns(outside, CLONE_NEWNET), "setns")
        finally:
            os.close(outside)

    def set_up(self, program, text):
        """What `ip -batch` or `nft -f` reads."""
        words = {"ip": ("ip", "-batch", "-"), "nft": ("nft", "-f", "-")}[program]
        with self._entered():
            ended = subprocess.run(words, input=text, text=True, capture_output=True,
                                   timeout=PATIENCE_S)
        self._check_ended(words, ended, text)

    def run(self, *words):
        ended = subprocess.run(words, preexec_fn=self.enter, text=True, capture_output=True,
                               timeout=PATIENCE_S)
        self._check_ended(words, ended)
        return ended.stdout

    @staticmethod
    def _check_ended(words, ended, text=""):
        if ended.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {ended.stderr.strip()}\n{text}")

    def pids(self):
        """The pid of every process in this network, whatever its session or parent, without zombies."""
        return [pid for pid, inode in all_networks() if inode == self.inode]


class Node(Namespaces):
    """One machine of the Network."""

    def __init__(self, index, hosts=None):
        super().__init__(f"n{index}", hosts)
        self.index = index
        self.number_addresses(index + 1)

    def number_addresses(self, number):
        """1 to 254, for all of its addresses."""
        self.address = f"10.77.0.{number}"
        self.address6 = f"fd77::{number:x}"
        self.hardware_address = f"02:00:00:00:00:{number:02x}"

    def renew(self):
        """Its kernel forgets all that it knew. Returns when nothing runs here."""
        self.kill()
        self.close()
        Namespaces.__init__(self, self.name, self._hosts)

    def popen(self, words, **more):
        """Ends with this process, however that ends."""

        def prepare():
            _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
            self.enter()

        return subprocess.Popen(words, preexec_fn=prepare, **more)

    def signal_all(self, number):
        """To every process of the node, those too that it forks meanwhile. Returns how many."""
        told = set()
        while True:
            fresh = [pid for pid in self.pids() if pid not in told]
            if not fresh:
                return len(told)
            for pid in fresh:
                told.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def freeze(self):
        """Stops every process of this node until thaw(). Its kernel still answers for it."""
        deadline = time.monotonic() + PATIENCE_S
        told = self.signal_all(signal.SIGSTOP)
        # The kernel reports a stop only to the parent, so /proc is read.
        while moving := [pid for pid in self.pids() if not is_stopped(pid)]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes {moving} of {self.name} do not stop")
            os.sched_yield()
        return told

    def thaw(self):
        return self.signal_all(signal.SIGCONT)

    def lose_power(self):
        """All that runs here dies at one moment: no process sees another one die, and reports it. Its kernel's own
        packets are not held back; isolate the node first."""
        self.freeze()
        self.kill()

    def kill(self):
        """SIGKILL to all that runs here. Returns when nothing does."""
        deadline = time.monotonic() + PATIENCE_S
        self.signal_all(signal.SIGKILL)
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError), PidFd(pid) as process:
                if not process.wait(deadline - time.monotonic()):
                    raise RuntimeError(f"process {pid} of {self.name} does not end")


class Network:
    """`count` nodes on one bridge, which is in a separate namespace."""

    def __init__(self, count, names=False):
        self._open = contextlib.ExitStack()
        self._addresses = {"localhost": "127.0.0.1"}  # name → address
        self._hosts = None
        self._cuts = set()  # (from, to)
        self._losses = {}  # node → part of its packets
        try:
            if names:
                self._hosts = self._open.enter_context(tempfile.NamedTemporaryFile(
                    "w", prefix="ddprun_hosts_"))
            self._hub = Namespaces("hub")
            self._open.callback(self._hub.close)
            self._hub.set_up("ip", """
                link add bridge type bridge
                link set bridge up
            """)
            self.nodes = []
            for index in range(count):
                self._add(index)
            self._apply()
        except BaseException:
            self._open.close()
            raise

    def _add(self, index):
        node = Node(index, self._hosts and self._hosts.name)
        self._open.callback(node.close)
        self._open.callback(node.kill)
        self.nodes.append(node)
        self._plug(node)

    def _plug(self, node):
        self._hub.set_up("ip", f"""
            link add {node.name} type veth peer name eth0 netns {node.path}
            link set {node.name} master bridge up
        """)
        node.set_up("ip", f"""
            link set lo up
            link set eth0 address {node.hardware_address}
            link set eth0 up
            address add {node.address}/24 dev eth0
            address add {node.address6}/64 dev eth0 nodad
        """)
        self.point(node.name, node.address)

    def point(self, name, address):
        """Makes the name resolve to that address, on every node; None: it does not resolve."""
        self._addresses[name] = address
        if self._hosts:
            lines = "".join(f"{each} {name}\n" for name, each in self._addresses.items() if each)
            # In place, since nodes see this very file; blanks, so that no reader finds half of it.
            os.pwrite(self._hosts.fileno(), lines.ljust(4096).encode(), 0)

    def renew(self, index, number=None):
        """Another machine replaces a node and has its name: it knows no connection, and answers where
        the old one was silent. `number`: of its address, if it has another one."""
        node = self.nodes[index]
        self._hub.set_up("ip", f"link delete {node.name}\n")  # nothing of the old one is sent any more
        node.renew()
        if number:
            node.number_addresses(number)
        self._plug(node)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __getitem__(self, index):
        return self.nodes[index]

    def __len__(self):
        return len(self.nodes)

    def close(self):
        self._open.close()

    # Troubles. Each returns when it holds for every packet from here on. -----------------------

    def cut(self, sender, receiver):
        """What `sender` sends to `receiver` is lost."""
        self._cuts.add((sender, receiver))
        self._apply()

    def cut_all(self, senders, receivers):
        """What any of `senders` sends to any of `receivers` is lost."""
        self._cuts |= {(a, b) for a in senders for b in receivers}
        self._apply()

    def split(self, *groups):
        """Nodes of different groups cannot reach each other."""
        group_of = {node: group for group in groups for node in group}
        self._cuts |= {(a, b) for a in group_of for b in group_of if group_of[a] is not group_of[b]}
        self._apply()

    def isolate(self, node):
        """Nothing of `node` arrives anywhere, and nothing arrives there."""
        self.split((node,), tuple(other.index for other in self.nodes if other.index != node))

    def mute(self, node):
        """`node` hears the others, and is not heard."""
        self._cuts |= {(node, other.index) for other in self.nodes if other.index != node}
        self._apply()

    def deafen(self, node):
        """`node` is heard, and does not hear the others."""
        self._cuts |= {(other.index, node) for other in self.nodes if other.index != node}
        self._apply()

    def lose(self, node, part):
        """`part` (above 0, below 1) of the packets from `node` and of those to it are lost."""
        if not 0 < part < 1:
            raise ValueError(f"{part}: all is isolate(), nothing is heal()")
        self._losses[node] = part
        self._apply()

    def heal(self):
        self._cuts.clear()
        self._losses.clear()
        self._apply()

    def _apply(self):
        # ARP and its like pass: between real machines there are routers, which know the way
        # whatever becomes of the other direction.
        neighbours = "nd-neighbor-solicit, nd-neighbor-advert"
        rules = ["ether type arp accept", f"icmpv6 type {{ {neighbours} }} accept"]
        if self._cuts:
            pairs = ", ".join(f'"n{a}" . "n{b}"' for a, b in sorted(self._cuts))
            rules.append(f"iifname . oifname {{ {pairs} }} drop")
        for node, part in sorted(self._losses.items()):
            lost = f"numgen random mod 100000 < {max(1, int(part * 100000))} drop"
            rules += [f'iifname "n{node}" {lost}', f'oifname "n{node}" {lost}']
        body = "\n".join(rules)
        # One transaction: no packet sees half of it.
        self._hub.set_up("nft", f"""
            table bridge troubles
            delete table bridge troubles
            table bridge troubles {{
              chain forward {{
                type filter hook forward priority 0; policy accept;
                {body}
              }}
            }}
        """)


class PidFd:
    """Waits for the end of a process that is not our child."""

    def __init__(self, pid):
        self._fd = os.pidfd_open(pid)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self._fd)

    def wait(self, seconds):
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(max(0, seconds) * 1000))
