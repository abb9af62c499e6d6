"""Writes all that a process can know of itself to $KNOWN.RANK, but what differs between any two: pid, times, names."""


class Thing:
    """To be pickled: it lies in __main__."""


def answer(queue):
    queue.put((__name__, Thing.__module__))


def links():
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink("/proc/self/fd/" + number)
        except OSError:  # that of the listing
            continue
        # Where an executed worker counts its steps if the package is installed, as a forked one always does.
        if not link.startswith(("/proc/", "/memfd:ddprun-")):
            link = os.path.basename(link) if link.endswith(".log") else re.sub(r"\d{3,}", "N", link)
            found[number] = link, os.get_inheritable(int(number))
    return found


def of_stream(stream, same):
    return {"name": stream.name, "mode": stream.mode, "encoding": stream.encoding, "errors": stream.errors,
            "line_buffering": stream.line_buffering, "write_through": stream.write_through,
            "newlines": stream.newlines, "isatty": stream.isatty(), "fileno": stream.fileno(),
            "seekable": stream.seekable(), "buffer": type(stream.buffer).__name__, "buffer_name": stream.buffer.name,
            "buffer_mode": stream.buffer.mode, "is_original": stream is same}


def of_process():
    libc = ctypes.CDLL(None)
    death_signal, is_subreaper = ctypes.c_int(), ctypes.c_int()
    libc.prctl(2, ctypes.byref(death_signal))  # PR_GET_PDEATHSIG
    libc.prctl(37, ctypes.byref(is_subreaper))  # PR_GET_CHILD_SUBREAPER
    text = {name: open("/proc/self/" + name).read() for name in (
        "cmdline", "comm", "limits", "cgroup", "oom_score_adj", "autogroup") if os.path.exists("/proc/self/" + name)}
    text["autogroup"] = text.get("autogroup", "").partition("nice")[2]  # each session has its own
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
    status["SigCgt"] = f"{int(status['SigCgt'], 16) & ~(1 << 61):016x}"  # the same: at signal 62 it writes its stacks
    # After a fork, numpy's OpenBLAS starts its threads when they have work.
    kept = (*(["Threads"] if "torch" not in sys.argv else []), "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Cpus_allowed", "Mems_allowed", "Uid", "Gid",
            "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "TracerPid", "Umask")
    return {**text, "status": {name: status.get(name) for name in kept}, "links": links(),
            "executable": os.readlink("/proc/self/exe"), "death_signal": death_signal.value,
            "is_subreaper": is_subreaper.value, "dumpable": libc.prctl(3), "cwd": os.getcwd(), "nice": os.nice(0),
            "leads_session": os.getsid(0) == os.getpid(), "leads_group": os.getpgid(0) == os.getpid(),
            "scheduler": os.sched_getscheduler(0), "affinity": sorted(os.sched_getaffinity(0)),
            "signals": {one.name: str(signal.getsignal(one)) for one in signal.Signals}}


def of_environment():
    random_ones = ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "DDPRUN_NOTICE_FILE", "DDPRUN_STEP_FILE",
                   "DDPRUN_STACK_FILE", "KNOWN")
    shown = open("/proc/self/environ", errors="surrogateescape").read().split("\0")[:-1]
    return {"os": {name: value for name, value in os.environ.items() if name not in random_ones},
            "shown": sorted(one for one in shown if one.partition("=")[0] not in random_ones)}


def of_python():
    return {"argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", None), "path": sys.path, "flags": str(sys.flags),
            "executable": sys.executable, "prefixes": [sys.prefix, sys.base_prefix, sys.exec_prefix],
            "options": sys._xoptions, "warnings": sys.warnoptions, "filters": [str(one) for one in warnings.filters],
            "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
            "tracers": [str(sys.gettrace()), str(sys.getprofile())], "recursion": sys.getrecursionlimit(),
            "switch": sys.getswitchinterval(), "gc": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
            "faulthandler": faulthandler.is_enabled(), "locale": locale.setlocale(locale.LC_ALL),
            "encodings": [sys.getfilesystemencoding(), sys.getdefaultencoding(), sys.getfilesystemencodeerrors()],
            "threads": [one.name for one in threading.enumerate()],
            "is_main_thread": threading.current_thread() is threading.main_thread(),
            "stdin": of_stream(sys.stdin, sys.__stdin__), "stdout": of_stream(sys.stdout, sys.__stdout__),
            "stderr": of_stream(sys.stderr, sys.__stderr__)}


def of_main():
    main = sys.modules["__main__"]
    return {"is_here": vars(main) is globals(), "names": sorted(vars(main)), "type": str(type(main)), "name": __name__,
            "file": globals().get("__file__", "none"), "spec": re.sub("0x[0-9a-f]+", "N", str(__spec__)), "package": str(__package__),
            "cached": globals().get("__cached__", "none"), "loader": str(__loader__).partition(" object at")[0],
            "loader_path": getattr(__loader__, "path", "none"), "doc": __doc__,
            "builtins": str(type(__builtins__)), "pickled": pickle.loads(pickle.dumps(Thing())).__class__ is Thing}


def of_multiprocessing():
    me = multiprocessing.current_process()
    found = {"name": me.name, "parent": str(multiprocessing.parent_process()), "key_bytes": len(me.authkey)}
    # A spawned child does not import a __main__ that is a text, or of a package, a directory or an archive.
    if "__file__" in globals() and (__spec__ is None or not __spec__.name.endswith("__main__")):
        for method in ("spawn", "fork"):
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            child = context.Process(target=answer, args=(queue,))
            child.start()
            found[method] = queue.get(timeout=60)
            child.join()
    return found


def of_torch():
    return {"threads": torch.get_num_threads(), "interop": torch.get_num_interop_threads(),
            "type": str(torch.get_default_dtype()), "grad": torch.is_grad_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "errors": str(numpy.geterr()), "numpy_state": numpy.random.get_state()[0]}


if __name__ == "__main__":
    import sys
    if "torch" in sys.argv:  # first, as in a fork server
        import numpy
        import torch._dynamo
    import ctypes
    import faulthandler
    import gc
    import json
    import locale
    import multiprocessing
    import os
    import pickle
    import re
    import signal
    import threading
    import warnings

    known = {"process": of_process(), "environment": of_environment(), "python": of_python(), "main": of_main(),
             "multiprocessing": of_multiprocessing()}
    if "torch" in sys.argv:
        known["torch"] = of_torch()
    with open(os.environ["KNOWN"] + "." + os.environ["RANK"], "w") as file:
        json.dump(known, file, indent=1)
