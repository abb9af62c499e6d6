"""Preemption notices: the signals and the file that announce the end of the job. docs/worker_contract.md has the rules.

Under ddprun, the file alone says that a notice has come: ddprun also sends SIGTERM to end an attempt in which another
worker has failed. This process must end at once then, even if its main thread, which runs Python's signal handlers,
waits for that worker. So a thread decides.
"""

import os
import sys
import time

# signal, socket and threading are imported where they are needed: `import ddprun` is to cost nothing.

CONFIRMED_WITHIN_S = 5  # Slurm signals all processes of a step, a moment before ddprun's line is in the file
POLL_S = 0.01

has_come = False
entered = None  # the PreemptionNotice whose handlers are installed
has_fork_hook = False


def preempted():
    """Whether a preemption notice has come: the job will end soon, save now. It stays true. Under ddprun all workers
    learn of it, but not at the same step; PreemptionNotice makes them agree. Costs a system call."""
    global has_come
    has_come = has_come or is_in_file()
    return has_come


def is_in_file():
    try:
        return os.stat(os.environ["DDPRUN_NOTICE_FILE"]).st_size > 0
    except (KeyError, OSError):
        return False


class PreemptionNotice:
    """Turns a preemption notice into a clean stop at the end of a step, the same step on all ranks::

        with ddprun.PreemptionNotice() as notice:
            for step in range(first, last):
                ...
                optimizer.step()
                if notice.should_stop():
                    save(step)
                    sys.exit(ddprun.EXIT_PREEMPTED)

    In the block, SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 do not end this process, unless they are ignored or handled by a
    library. Without ddprun each is a notice, and a second SIGINT raises KeyboardInterrupt. Under ddprun a notice is
    what DDPRUN_NOTICE_FILE tells; a SIGTERM without it ends this process at once, since another worker has failed.

    The end of the block restores the handlers if no notice has come. Otherwise they stay: the process is about to end,
    and a repeated signal must not change its exit status.

    Enter the block in the main thread. In another one, Python cannot install handlers, and only the file is read.
    """

    def __enter__(self):
        global entered, has_fork_hook
        import signal
        self.handlers, self.sockets = {}, None
        try:
            for number in signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2:
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    self.handlers[number] = signal.signal(number, self._handle)
        except ValueError:
            return self
        if "DDPRUN_NOTICE_FILE" in os.environ:
            self._start_thread()
        if not has_fork_hook:
            os.register_at_fork(before=Fork.before, after_in_parent=Fork.after_in_parent,
                                after_in_child=Fork.after_in_child)
            has_fork_hook = True
        entered = self
        return self

    def __exit__(self, *_):
        global entered
        if entered is not self or preempted():
            return
        import signal
        entered = None
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        if self.sockets:
            signal.set_wakeup_fd(self.former_wakeup)
            self.sockets[1].close()  # which ends the thread

    def should_stop(self):
        """Whether all ranks are to stop now, because a notice has come to at least one of them.

        All ranks must call it equally often, say at the end of each step. If torch.distributed is initialized, it is a
        collective operation (an all_reduce of one number), and fails as others do. With NCCL and no backend for the
        CPU it waits for the GPU: call it every few steps there.
        """
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available() or not distributed.is_initialized() \
                or distributed.get_world_size() == 1:
            return preempted()
        flag = sys.modules["torch"].tensor([int(preempted())], device=device_type(distributed))
        distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
        return bool(flag.item())

    def _handle(self, number, _):
        global has_come
        if self.sockets:
            return  # the thread decides
        import signal
        if has_come and number == signal.SIGINT:
            raise KeyboardInterrupt
        has_come = True

    def _start_thread(self):
        import signal
        import socket
        import threading
        self.sockets = socket.socketpair()
        self.sockets[1].setblocking(False)
        # Signals write their numbers there, whatever the main thread does.
        self.former_wakeup = signal.set_wakeup_fd(self.sockets[1].fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._end_unless_confirmed, name="ddprun notice", daemon=True).start()

    def _end_unless_confirmed(self):
        import signal
        with self.sockets[0] as signals:
            for number in iter(lambda: signals.recv(1), b""):
                if number[0] in (signal.SIGTERM, signal.SIGINT) and not is_confirmed():
                    end_by(number[0])


def is_confirmed():
    """Elsewhere than in a Slurm step, ddprun writes the line before it signals."""
    deadline = time.monotonic() + (CONFIRMED_WITHIN_S if "SLURM_STEP_ID" in os.environ else 0)
    while not preempted():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def end_by(number):
    """Ends this process by the signal: its exit status tells that it has not saved. Python's signal module changes
    handlers in the main thread only."""
    import ctypes
    ctypes.CDLL(None).signal(number, None)  # SIG_DFL
    os.kill(os.getpid(), number)


class Fork:
    """Gives a forked process the former handler of SIGTERM, by which multiprocessing ends it. Until it has that, the
    signal is blocked: the process shares the socket, and would take it for its parent."""

    mask = None

    @classmethod
    def before(cls):
        if entered is not None:
            import signal
            cls.mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    @classmethod
    def after_in_parent(cls):
        if cls.mask is not None:
            import signal
            signal.pthread_sigmask(signal.SIG_SETMASK, cls.mask)

    @classmethod
    def after_in_child(cls):
        if cls.mask is not None:
            import signal
            if entered.sockets:
                signal.set_wakeup_fd(-1)
            if signal.SIGTERM in entered.handlers:
                signal.signal(signal.SIGTERM, entered.handlers[signal.SIGTERM])
            signal.pthread_sigmask(signal.SIG_SETMASK, cls.mask)


def device_type(distributed):
    """Where the default process group takes tensors: on the CPU if it does."""
    if not hasattr(distributed, "get_backend_config"):  # torch 1
        return "cuda" if distributed.get_backend() == "nccl" else "cpu"
    types = [pair.split(":")[0] for pair in distributed.get_backend_config().split(",")]  # "cpu:gloo,cuda:nccl"
    return "cpu" if "cpu" in types else types[0]
