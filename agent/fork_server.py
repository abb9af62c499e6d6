"""The fork server: imports what workers need, once, and forks each worker of each attempt.

`python -c` reads this text from stdin, a socket whose other end the agent holds (fork_server.cpp). A message is its
size, four bytes, and fields that each end with a NUL; descriptors come with the size. The agent sends what to import,
and gets one line: "ready", or why workers must be executed. Then it sends a request for each worker
(fork_channel.cpp), and gets a line: the worker's pid, or why it is to be executed.

A forked worker is to find what an executed one finds; docs/python.md says what may differ.
"""

import ast
import builtins
import contextlib
import ctypes
import fcntl
import gc
import importlib.machinery
import importlib.util
import io
import marshal
import os
import pkgutil
import random
import resource
import signal
import socket
import stat
import struct
import sys
import sysconfig
import types
import warnings

# Packages that may be imported before it is known which rank is to use them, under "auto".
KNOWN = frozenset("""
    accelerate datasets diffusers einops evaluate huggingface_hub ignite lightning lightning_fabric lightning_utilities
    numpy omegaconf pandas peft PIL pyarrow pydantic pytorch_lightning safetensors scipy sentencepiece sklearn tiktoken
    timm tokenizers torch torchaudio torchdata torchmetrics torchtext torchvision tqdm transformers trl yaml
""".split())

# What a training script with torch imports sooner or later. Without the last one, the first optimizer takes a second.
TORCH = ("torch.distributed", "torch.optim", "torch._dynamo")

# Set while modules are imported, unless the user has: pyarrow's allocator starts a thread that a fork would lose.
ONLY_DURING_IMPORTS = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}

# What these modules read at their import, though it differs from rank to rank: Lightning's and torchmetrics' own rank.
RANKS = {"lightning_utilities.core.rank_zero": "RANK", "torchmetrics.utilities.prints": "LOCAL_RANK"}

STEPS = "ddprun._steps"  # the module that counts a worker's steps, whether or not the package is installed

DESCRIPTORS_MAX = 64
LOW_NUMBERS = 1024  # select() takes no other descriptors; lifelines stay out of the way
FORKED = 10  # how the process ends that has waited for a request
PR_SET_PDEATHSIG = 1
PR_SET_MM, PR_SET_MM_MAP = 35, 14

libc = ctypes.CDLL(None, use_errno=True)


class Own:
    """What has become of the agent's words: by the program that started this one, such as pyenv's, and by imports."""

    def __init__(self, arguments, environment, options):
        self.options = options  # how many arguments after the program are the interpreter's
        self.program = getattr(sys, "orig_argv", arguments)[0]
        self.given = environment
        self.at_start = dict(os.environb)
        try:
            self.directory = os.getcwd()
        except OSError:
            raise Unusable("the working directory was deleted") from None
        self.place = 0  # in sys.path, of the script's directory
        self.descriptors = open_descriptors()
        self.random = random.getstate()

    def imports_are_done(self):
        self.now = dict(os.environb)
        self.random_now = random.getstate()


def descriptors_here():
    """The number of each, and what it is open on."""
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing is gone
            yield int(number), os.readlink("/proc/self/fd/" + number)


def open_descriptors():
    """Those that have a position or a peer, which processes share after a fork."""
    return {number: link for number, link in descriptors_here() if not stat.S_ISCHR(os.fstat(number).st_mode)}


def as_changed(environment, old, new):
    """The same environment after what made `new` of `old`, but for variables that are the worker's own."""
    changed = {name for name in {*old, *new} if old.get(name) != new.get(name) and environment.get(name) == old.get(name)}
    kept = {name: value for name, value in environment.items() if name not in changed}
    return {**kept, **{name: new[name] for name in changed if name in new}}


class Unusable(Exception):
    """Why workers must be executed."""


# --- What the agent says ---------------------------------------------------------------------------------------------


def receive(channel):
    """The fields of one message, and its descriptors. At the end of the agent, this process ends too."""
    size, ancillary, _, _ = channel.recvmsg(4, socket.CMSG_SPACE(4 * DESCRIPTORS_MAX), socket.MSG_CMSG_CLOEXEC)
    if not size:
        os._exit(0)
    descriptors = []
    for _, _, numbers in ancillary:
        descriptors += struct.unpack(f"={len(numbers) // 4}i", numbers[:len(numbers) // 4 * 4])
    left = struct.unpack("=I", size)[0]
    parts = []
    while left:
        part = channel.recv(left)
        if not part:
            os._exit(0)
        parts.append(part)
        left -= len(part)
    return b"".join(parts).split(b"\0")[:-1], descriptors


def read_command(fields):
    """The arguments, whose number comes first, and the environment."""
    count = 1 + int(fields[0])
    return [os.fsdecode(field) for field in fields[1:count]], dict(field.split(b"=", 1) for field in fields[count:])


def answer(channel, what):
    os.write(channel.fileno(), " ".join(str(what).split())[:900].encode("utf-8", "backslashreplace") + b"\n")


# --- Imports ---------------------------------------------------------------------------------------------------------


def spec_of(module, path):
    """Where a module lies, without importing the packages above it; None: it is not found."""
    spec, whole = None, ""
    for name in module.split("."):
        whole = f"{whole}.{name}" if whole else name
        try:
            spec = importlib.machinery.PathFinder.find_spec(whole, path)
        except (ImportError, OSError, ValueError):
            return None
        if spec is None:
            return None
        path = spec.submodule_search_locations or []
    return spec


def is_users(package, directory):
    """Whether it lies beside the script."""
    spec = spec_of(package, [directory])
    return spec is not None and bool(spec.origin)  # not a directory of, say, data, which packages elsewhere precede


def is_installed(package):
    """Whether it lies where packages are installed, and not among the user's own files."""
    spec = spec_of(package, sys.path)
    if spec is None:
        return False
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or [])
    known = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    known = tuple(os.path.join(place, "") for place in known if place)
    return bool(places) and all(
        place.startswith(known) or "/site-packages/" in place or "/dist-packages/" in place for place in places)


def source_of(how, script):
    """The file that a worker runs first; None: there is none to be read."""
    if how == "-m":
        spec = spec_of(script, [own.directory, *sys.path])
        if spec is not None and spec.submodule_search_locations is not None:
            spec = spec_of(script + ".__main__", [own.directory, *sys.path])
        script = spec.origin if spec is not None else None
    elif script is not None and os.path.isdir(script):
        script = os.path.join(script, "__main__.py")
    return script if script is not None and os.path.isfile(script) else None


def known_imports(how, script):
    """The import statements at the top level of the script, of packages that are known and installed."""
    path = source_of(how, script)
    if path is None:
        raise Unusable("it cannot be read what the script imports; name the modules: --preload torch")
    try:
        with open(path, "rb") as file:
            top = ast.parse(file.read(), path).body
    except (OSError, SyntaxError, ValueError):
        return []  # the worker says what is wrong with it
    directory = own_directory(how, path)
    found = []
    for statement in top:
        if isinstance(statement, ast.Import):
            one = [(alias.name, ast.Import([ast.alias(alias.name, None)])) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
            one = [(statement.module, statement)]
        elif has_no_effect(statement):
            continue
        else:
            break  # it may set variables or paths for the imports that follow
        if any(is_users(name.split(".")[0], directory) for name, _ in one):
            break
        found += one
    return [(name, statement) for name, statement in found
            if name.split(".")[0] in KNOWN and is_installed(name.split(".")[0])]


def has_no_effect(statement):
    """On imports: a text, a definition, a value that calls nothing."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return not statement.decorator_list
    if isinstance(statement, ast.Assign) and not all(isinstance(target, ast.Name) for target in statement.targets):
        return False  # os.environ[...]
    return isinstance(statement, (ast.Expr, ast.Assign)) and not any(
        isinstance(part, (ast.Call, ast.Await, ast.NamedExpr)) for part in ast.walk(statement.value))


def preload(modules, how, script):
    """Imports `modules`, "auto" or names with commas."""
    if modules == "auto":
        imports = known_imports(how, script)
        if not imports:
            raise Unusable("the script imports no package that is known to be safe before it does something else; "
                           "name the modules: --preload torch")
        for name, statement in imports:
            run_import(name, statement)
    else:
        directory = own_directory(how, script)
        sys.path.insert(0, directory)
        for name in modules.split(","):
            run_import(name)
        if directory in sys.path:
            own.place = sys.path.index(directory)
            del sys.path[own.place]
    if "torch" in sys.modules:
        for name in TORCH:
            run_import(name)


def run_import(name, statement=None):
    """As the script does it: `from a import b` may import b."""
    if statement is None:
        statement = ast.Import([ast.alias(name, None)])
    module = ast.fix_missing_locations(ast.Module([statement], []))
    try:
        exec(compile(module, "<ddprun>", "exec"), {})
    except BaseException as error:
        text = (str(error) or "no reason given").splitlines()[0]
        raise Unusable(f"the import of {name} fails: {type(error).__name__}: {text}") from None


def load_steps(text):
    module = sys.modules[STEPS] = types.ModuleType(STEPS)
    exec(compile(text, "<ddprun>", "exec"), module.__dict__)


def check_that_it_forks():
    """Threads and a CUDA context would be missing in a copy of this process."""
    # OpenBLAS ends its threads before a fork, and starts them again when they have work.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        os._exit(1 if cuda_is_lost() else 0)
    if os.waitpid(child, 0)[1] != 0 or has_gpu():
        raise Unusable("an import used a GPU, and a forked process could not")
    kept = [file for number, file in open_descriptors().items() if own.descriptors.get(number) != file]
    if kept:
        raise Unusable(f"an import keeps a file open ({kept[0]}), whose position forked processes would share")
    tasks = os.listdir("/proc/self/task")
    if len(tasks) > 1:
        names = sorted({name_of(task) for task in tasks if task != str(os.getpid())})
        raise Unusable(f"an import started a thread ({', '.join(names)}), and a forked process would not have it")
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return
    raise Unusable("an import started a process")


def check_names(directory):
    """The script would import its neighbours, and not what was imported here under their names."""
    try:
        entries = list(os.scandir(directory or "."))
    except OSError:  # an archive
        return
    for entry in entries:
        name, suffix = os.path.splitext(entry.name)
        known = sys.modules.get(name)
        is_module = suffix == ".py" or os.path.exists(os.path.join(entry.path, "__init__.py"))
        if known is None or not is_module or name == "__main__":
            continue
        origin = getattr(known, "__file__", None) or ""
        if not os.path.realpath(origin).startswith(os.path.realpath(entry.path)):
            raise Unusable(f"{entry.path} has the name of a module that was imported from elsewhere")


def name_of(task):
    try:
        with open(f"/proc/self/task/{task}/comm") as file:
            return file.read().strip()
    except OSError:
        return task


def cuda_is_lost():
    """In a forked process: whether torch has used the driver before the fork."""
    torch = sys.modules.get("torch")
    try:
        return torch is not None and torch.cuda._is_in_bad_fork()
    except AttributeError:
        return False


def has_gpu():
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_initialized():
            return True
    except AttributeError:
        pass
    return any(link.startswith("/dev/nvidia") for _, link in descriptors_here())


# --- A worker --------------------------------------------------------------------------------------------------------


def fork_worker(channel):
    """Forks a process that waits for a request, and forks the worker: so the worker becomes the agent's child, which
    adopts orphans below it, and only one of the two forks is made while the agent waits."""
    begin, may_begin = os.pipe()
    try:
        waiting = os.fork()
    except OSError as error:
        receive(channel)
        return answer(channel, f"it cannot fork: {error}")
    if waiting == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        fields, descriptors = receive(channel)
        fork_orphan(channel)
        os.close(may_begin)
        become_worker(channel, fields, descriptors, begin)
    _, status = os.waitpid(waiting, 0)
    if not os.WIFEXITED(status) or os.WEXITSTATUS(status) != FORKED:
        os._exit(0)  # the agent has ended, or knows
    os.write(may_begin, b"1")
    os.close(begin)
    os.close(may_begin)


def fork_orphan(channel):
    """Returns in the new process, and ends this one."""
    try:
        child = os.fork()
    except OSError as error:
        answer(channel, f"it cannot fork: {error}")
        os._exit(1)
    if child != 0:
        os._exit(FORKED)


def flush():
    for stream in sys.stdout, sys.stderr:
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass
    libc.fflush(None)


def become_worker(channel, fields, descriptors, begin):
    agent, kinds, ignored, cpus, *command = fields
    try:
        arguments, environment = read_command(command)
        arguments[0] = own.program
        environment = as_changed(environment, own.given, own.at_start)
        os.setsid()
        for number in filter(None, ignored.split(b",")):
            signal.signal(int(number), signal.SIG_IGN)
        arrange(kinds.decode(), descriptors)
        if cpus:
            os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(b",")])
        take_over(as_changed(environment, own.at_start, own.now))
        start_anew()
        sys.modules[STEPS].start()
        show_command(arguments, environment)
        run = prepare(arguments)
        await_adoption(begin, int(agent))
        answer(channel, os.getpid())
        channel.close()
    except BaseException as error:
        try:
            answer(channel, f"a forked worker cannot begin: {type(error).__name__}: {error}")
        except OSError:  # the agent does not wait any more
            pass
        os._exit(1)
    run_main(run)


def await_adoption(begin, agent):
    """Waits until this process is the agent's child, and will end with it."""
    if os.read(begin, 1) != b"1":  # the server has ended
        os._exit(1)
    os.close(begin)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != agent:
        raise ProcessLookupError("the agent has ended, or cannot adopt orphans")


def take_over(environment):
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environb.clear()
    os.environb.update(environment)
    if "torch" in sys.modules and os.environ.get("OMP_NUM_THREADS", threads) != threads:
        sys.modules["torch"].set_num_threads(int(os.environ["OMP_NUM_THREADS"]))  # read at the import


def arrange(kinds, descriptors):
    """Gives descriptors their places: "i", "o", "e" the streams, "k" lifelines."""
    for kind, descriptor in zip(kinds, descriptors):
        if kind != "k":
            os.dup2(descriptor, "ioe".index(kind))
        elif not keep_open(descriptor):
            continue
        os.close(descriptor)
    # Python has made them for other files. They stay the same objects, which imported modules may refer to.
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        renew(stream, number)


def keep_open(descriptor):
    """A copy out of the way. False: it keeps its number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        fcntl.fcntl(descriptor, fcntl.F_DUPFD, LOW_NUMBERS)
    except (OSError, ValueError):
        os.set_inheritable(descriptor, True)
        return False
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return True


def renew(stream, number):
    """Makes it a stream of the file that has this number now, as Python does at its start."""
    mode, settings = stream.mode, {"encoding": stream.encoding, "errors": stream.errors, "newline": "\n"}
    is_unbuffered = stream.write_through  # as with -u
    is_line_buffered = not is_unbuffered and (number == 2 or os.isatty(number))
    buffer = open(number, mode + "b", 0 if is_unbuffered and number != 0 else -1, closefd=False)
    (buffer if isinstance(buffer, io.FileIO) else buffer.raw).name = f"<{('stdin', 'stdout', 'stderr')[number]}>"
    stream.detach()
    stream.__init__(buffer, **settings, line_buffering=is_line_buffered, write_through=is_unbuffered)
    stream.mode = mode


def start_anew():
    """What a new process has of its own, unless an import has seeded it."""
    if own.random != own.random_now:
        random.setstate(own.random_now)  # Python has seeded it at the fork
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy is not None and getattr(numpy.mtrand._rand._bit_generator, "_seed_seq", None) is not None:
        numpy.seed()
    if torch is not None and torch.initial_seed() >= 1 << 32:  # a user's are smaller
        torch.default_generator.seed()
    for module, variable in RANKS.items():
        rank_zero_only = getattr(sys.modules.get(module), "rank_zero_only", None)
        if hasattr(rank_zero_only, "rank"):
            rank_zero_only.rank = int(os.environ[variable])
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)
    importlib.invalidate_caches()  # files may have come since the last attempt


def show_command(arguments, environment):
    """Makes `ps` and /proc show the worker's own command and environment; without them, it runs as well."""
    class Map(ctypes.Structure):  # struct prctl_mm_map
        _fields_ = [(name, ctypes.c_uint64) for name in (
            "start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack", "arg_start",
            "arg_end", "env_start", "env_end", "auxv")] + [("auxv_size", ctypes.c_uint32), ("exe", ctypes.c_uint32)]

    command = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
    variables = b"".join(name + b"=" + value + b"\0" for name, value in environment.items())
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = [None, None, None] + file.read().rpartition(b")")[2].split()  # by their numbers in proc(5)
        libc.mmap.restype = libc.sbrk.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        # Private and anonymous, readable and writable. It is never freed.
        at = libc.mmap(None, len(command) + len(variables) + 1, 3, 0x22, -1, 0)
        if at in (None, ctypes.c_void_p(-1).value):
            return
        ctypes.memmove(at, command + variables, len(command) + len(variables))
        between, end = at + len(command), at + len(command) + len(variables)
        start_code, end_code, start_stack = [int(fields[number]) for number in (26, 27, 28)]
        start_data, end_data, start_brk = [int(fields[number]) for number in (45, 46, 47)]
        new = Map(start_code, end_code, start_data, end_data, start_brk, 0, start_stack, at, between, between, end,
                  0, 0, 0xFFFFFFFF)
        call = [ctypes.c_int(PR_SET_MM), ctypes.c_ulong(PR_SET_MM_MAP), ctypes.byref(new),
                ctypes.c_ulong(ctypes.sizeof(new)), ctypes.c_ulong(0)]
        for _ in range(8):  # the end of the heap is set too, and these lines may move it
            new.brk = libc.sbrk(ctypes.c_long(0))
            if libc.prctl(*call) != 0 or libc.sbrk(ctypes.c_long(0)) == new.brk:
                return
    except (OSError, ValueError, IndexError, AttributeError):
        pass


# --- The script ------------------------------------------------------------------------------------------------------


def parse(arguments):
    """How the interpreter is to run what: "-m", "-c" or "" for a file, then the name, then its arguments."""
    rest = arguments[1 + own.options:]
    if rest[0] in ("-m", "-c"):
        return rest[0], rest[1], rest[2:]
    return "", rest[0], rest[1:]


def own_directory(how, script):
    """What is first in sys.path."""
    if how == "-m":
        return own.directory
    if how == "-c":
        return ""
    whole = os.path.realpath(os.path.join(own.directory, script))
    return whole if os.path.isdir(whole) or not is_file(script) else os.path.dirname(whole)


def is_file(script):
    """Not a directory or an archive with a __main__.py."""
    return isinstance(pkgutil.get_importer(script), (type(None), importlib.machinery.FileFinder)) \
        and not os.path.isdir(script)


def prepare(arguments):
    """Makes the module __main__. Yields what runs the program in it."""
    how, script, rest = parse(arguments)
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = arguments
    sys.argv = [how or script, *rest]
    if not is_safe_path():
        sys.path.insert(own.place, own_directory(how, script))
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    main.__loader__ = importlib.machinery.BuiltinImporter
    for name in {"__main__", "__mp_main__"} & set(sys.modules):  # the second one by multiprocessing
        sys.modules[name] = main
    if how == "-c":
        return lambda: exec(compile(script, "<string>", "exec", dont_inherit=True), main.__dict__)
    if how == "-m" or not is_file(script):
        import runpy
        return lambda: runpy._run_module_as_main(script if how == "-m" else "__main__", how == "-m")
    path = script
    if not path.startswith("/"):
        path = os.path.join(own.directory, path)
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    main.__file__ = path
    main.__cached__ = None
    return lambda: run_file(path, main)


def is_safe_path():
    return bool(getattr(sys.flags, "safe_path", sys.flags.isolated))


def run_file(path, main):
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        text = f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {os.strerror(error.errno)}"
        print(text, file=sys.stderr)
        sys.exit(2)
    is_compiled = source.startswith(importlib.util.MAGIC_NUMBER)
    code = marshal.loads(source[16:]) if is_compiled else compile(source, path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def run_main(run):
    """Runs it, and lets Python end as after any program, but that no traceback shows this file."""
    try:
        run()
    except SystemExit:
        raise
    except BaseException as error:
        hook, trace = sys.excepthook, error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == "<ddprun>":
            trace = trace.tb_next

        def without_this_file(kind, value, _):
            nonlocal trace
            shown, trace, sys.excepthook = trace, None, hook  # nothing may keep the script's objects
            hook(kind, value.with_traceback(shown), shown)

        write_error_file(error.with_traceback(trace))
        sys.excepthook = without_this_file
        raise
    sys.exit(0)


def write_error_file(error):
    """As torch's @record does, unless it has done so."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path) or not isinstance(error, Exception):
        return
    import json
    import time
    import traceback
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
        with open(path, "w") as file:
            json.dump({"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}}, file)
    except Exception:  # the traceback on stderr says more than this one's
        pass


def serve():
    global own
    # Out of the way of imports that read stdin, and not tied to the thread that has started this process.
    channel = socket.socket(fileno=fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    libc.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
    (modules, options, steps, *command), _ = receive(channel)
    arguments, environment = read_command(command)
    try:
        if not os.path.exists("/proc/self/fd") or os.readlink("/proc/self") != str(os.getpid()):
            raise Unusable("/proc does not show this process")
        own = Own(arguments, environment, int(options))
        if sys.flags.inspect:
            raise Unusable("Python is to stay interactive (PYTHONINSPECT)")
        prepare_imports(os.fsdecode(modules), *parse(arguments))
        load_steps(steps)
    except Unusable as error:
        answer(channel, error)
        os._exit(0)
    answer(channel, "ready")
    flush()
    while True:
        fork_worker(channel)


def prepare_imports(modules, how, script, rest):
    if not is_safe_path():
        del sys.path[0]  # the working directory, which `-c` has put there
    sys.argv = [how or script, *rest]
    before, rare = gc.get_threshold(), (1_000_000_000, 1000, 1000)
    gc.set_threshold(*rare)  # imports make little garbage
    lent = {name: value for name, value in ONLY_DURING_IMPORTS.items() if name not in os.environ}
    os.environ.update(lent)
    preload(modules, how, script)
    for name in lent:
        os.environ.pop(name, None)
    if gc.get_threshold() == rare:
        gc.set_threshold(*before)
    check_that_it_forks()
    check_names(own_directory(how, script))
    own.imports_are_done()
    gc.freeze()  # a collection would write to what forked workers share


serve()
