"""Counts the steps of an unmodified training script, where the agent can read them.

ddprun.pth calls start() in each Python process of a worker, and the fork server in each worker that it forks. From then
on a hook of torch's optimizers writes each step into shared memory: the slot of this worker in DDPRUN_STEP_FILE. It
takes no lock and makes no system call. Nothing here may change or end a script, so what fails is silent.

A slot counts for one process, its owner. The first process of a worker to start claims the slot. Another one takes it
over at its first step if the owner has made none, as a launcher script has not, or has ended. Thus the processes of a
DataLoader never count.

The fork server executes this file as text, as a module without a package: it imports nothing of ddprun.
"""

import faulthandler
import mmap
import os
import sys
from time import monotonic_ns

SLOT_BYTES = 128
TEXT = slice(64, 128)
# The numbers in a slot, by position, native signed integers of 64 bits.
PID = 0  # of the owner; 0: none yet
STEPS = 1  # since the attempt began
STEPPED_AT = 2  # monotonic_ns() of the last step; 0: none
SLOWEST = 3  # nanoseconds, the longest time between two of the last 64 to 128 steps
REPORTED = 4  # 1 + the last number given to report_progress(); 0: none
BUSY_UNTIL = 5  # monotonic_ns() until which a pause is announced; 0: none
STACK_SIGNAL = 6  # makes the owner write its Python stacks; 0: it has no such handler
STEP_TIME = 7  # nanoseconds, the mean of the last steps; 0: not known

WINDOW = 64  # steps
MEAN_OVER = 8  # steps
STACKS = 62  # the signal: real-time, and used by no library that is known
HIGH = 1000  # descriptors from here on are out of the way of scripts that expect or close low ones
HOOKED = "torch.optim.optimizer"

numbers = None  # the slot as integers; None: nobody counts
text = None  # the slot as bytes
pid = 0  # of this process
has_asked = False  # whether this process has tried to take the slot over
stack_signal = 0
hook_step = None  # what counts a step
steps_at_report = 0


def start():
    """Begins to count in this process, if the environment names a usable DDPRUN_STEP_FILE."""
    global pid, stack_signal
    if numbers is not None:
        return
    try:
        pid = os.getpid()
        map_slot(os.environ["DDPRUN_STEP_FILE"], int(os.environ.get("DDPRUN_STEP_SLOT") or os.environ["LOCAL_RANK"]))
    except Exception:
        return
    os.register_at_fork(after_in_child=begin_child)
    try:
        stack_signal = register_stacks(os.environ["DDPRUN_STACK_FILE"])
    except Exception:
        pass
    if numbers[PID] in (0, pid) or not is_alive(numbers[PID]):  # its own, after an exec
        claim()
    try:
        hook_optimizers()
    except Exception:
        pass


def map_slot(path, slot):
    global numbers, text, hook_step
    if slot < 0:
        raise ValueError(slot)
    end = SLOT_BYTES * (slot + 1)
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        # The variable may have come here from elsewhere.
        if not os.readlink("/proc/self/fd/%d" % file).startswith("/memfd:ddprun-steps"):
            raise ValueError(path)
        # Fails if the file is shorter. Without the option, which is new in 3.13, it keeps a copy of the descriptor.
        options = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        mapped = memoryview(mmap.mmap(file, end, **options))[end - SLOT_BYTES:]
    finally:
        os.close(file)
    hook_step = make_hook(mapped.cast("q"))
    numbers, text = mapped.cast("q"), mapped[TEXT]


def begin_child():
    """After a fork, the slot is the parent's."""
    global pid, has_asked
    pid, has_asked = os.getpid(), False


# --- The owner of the slot -------------------------------------------------------------------------------------------


def owns():
    """Whether this process counts. A process that is not the owner asks once to become it."""
    global has_asked
    if numbers[PID] == pid:
        return True
    if has_asked:
        return False
    has_asked = True
    if numbers[STEPS] != 0 and is_alive(numbers[PID]):
        return False
    claim()
    return True


def claim():
    """Makes this process the owner. The agent reads at any time: it must not find the signal beside a process that has no handler for it."""
    numbers[STACK_SIGNAL] = 0
    numbers[PID] = pid
    numbers[STACK_SIGNAL] = stack_signal


def is_alive(process):
    try:
        with open("/proc/%d/stat" % process, "rb") as file:
            return file.read().rpartition(b") ")[2][:1] not in (b"Z", b"X")
    except (OSError, ValueError):
        return False


# --- Steps -----------------------------------------------------------------------------------------------------------


def make_hook(slot):
    """What runs after each step. Two threads that step at the same time may lose a step."""
    last = -1  # monotonic_ns(); less than any BUSY_UNTIL, so that the first step ends no gap
    longest = before = 0  # the longest gap in this window, and in the one before
    left = 0  # steps of this window
    mean = 0  # of the gaps, the newest counts most

    def count_step(*_):
        nonlocal last, longest, before, left, mean
        if slot[PID] != pid and not owns():
            return
        now = monotonic_ns()
        slot[STEPS] += 1
        slot[STEPPED_AT] = now
        gap = now - last
        if slot[BUSY_UNTIL] > now:  # the pause is over
            slot[BUSY_UNTIL] = now
        if slot[BUSY_UNTIL] < last:  # an announced pause is not a slow step
            mean += (gap - mean) // MEAN_OVER if mean else gap
            slot[STEP_TIME] = mean
            if gap > longest:
                longest = gap
                if longest > before:
                    slot[SLOWEST] = longest
        last = now
        left -= 1
        if left < 0:
            left, before, longest = WINDOW - 1, longest, 0  # the window ends
            slot[SLOWEST] = before

    return count_step


def report(step):
    """Counts as a step, unless an optimizer has made one since the last report."""
    global steps_at_report
    if numbers is None:
        return
    if numbers[STEPS] == steps_at_report or numbers[PID] != pid:
        hook_step()
    if numbers[PID] == pid:
        steps_at_report = numbers[STEPS]
        numbers[REPORTED] = 1 + step


def hook_optimizers():
    module = sys.modules.get(HOOKED)
    if module is not None:
        register_in(module)
    else:
        sys.meta_path.insert(0, Finder())


def register_in(module):
    """torch has the function since 2.0."""
    module.register_optimizer_step_post_hook(hook_step)


class Finder:
    """Waits for the import of torch's optimizers, and leaves it to the finders that would have found them."""

    def find_spec(self, name, path=None, target=None):
        if name != HOOKED:
            return None
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                self.register_after_import(spec.loader)
                return spec
        return None

    def register_after_import(self, loader):
        """Shadows the loader's method by an attribute, for one import: so the module only ever has its real loader."""
        def exec_module(module):
            del loader.exec_module
            loader.exec_module(module)
            try:
                sys.meta_path.remove(self)
                register_in(module)
            except Exception:
                pass

        try:
            loader.exec_module = exec_module
        except Exception:
            pass


# --- Announced pauses ------------------------------------------------------------------------------------------------


class Pause:
    """An announced pause. As a context manager, it ends with the block."""

    def __init__(self, what, nanoseconds):
        self.until = 0
        try:
            if numbers is None or not owns():
                return
        except Exception:
            return
        now = monotonic_ns()
        self.outer = numbers[BUSY_UNTIL], bytes(text)
        self.until = min(now + nanoseconds, (1 << 63) - 1)
        announce(self.until, what.encode("utf-8", "replace"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.until or numbers[PID] != pid or numbers[BUSY_UNTIL] != self.until:
            return  # another one was announced since
        now = monotonic_ns()
        if self.outer[0] > now:
            announce(*self.outer)
        else:
            numbers[BUSY_UNTIL] = now


def announce(until, what):
    room = TEXT.stop - TEXT.start
    what = what[:room - 1].decode("utf-8", "ignore").encode()  # no half of a character
    text[:] = what.ljust(room, b"\0")
    numbers[BUSY_UNTIL] = until


# --- Stacks ----------------------------------------------------------------------------------------------------------


def register_stacks(path):
    """The signal at which this process writes its stacks into the file; 0 if something else handles it."""
    import _thread
    import fcntl
    if _thread.get_native_id() != os.getpid() or is_handled(STACKS):
        return 0
    low = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        file = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH)
    except OSError:  # above the limit: a script that closes low ones would get the stacks into its own files
        os.close(low)
        return 0
    os.close(low)
    faulthandler.register(STACKS, file=file, all_threads=True, chain=False)
    return STACKS


def is_handled(number):
    """Also by a library, which Python's signal module does not see."""
    with open("/proc/self/status", "rb") as file:
        [caught] = [line for line in file if line.startswith(b"SigCgt:")]
    return int(caught.split()[1], 16) >> (number - 1) & 1 == 1
