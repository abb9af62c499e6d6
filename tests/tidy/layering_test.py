"""Which room may include which, and which library is seen where: the two tables of docs/architecture.md, checked
on every #include. Also that no includes form a cycle, and that each library of the table is used."""

import re
import unittest

from source_tree import ROOMS, SourceFile, cpp_files

# Room → what it may include of the other rooms, as patterns of headers.
ALLOWED_ROOMS = {
    "base": [],
    "slurm": [r"base/"],
    "rendezvous": [r"base/"],
    "agent": [r"base/", r"rendezvous/"],
    "bench": [r"base/", r"rendezvous/"],
    "trainer": [r"base/", r"slurm/core/", r"rendezvous/(listener|store_client)\.hpp$"],
    # From the trainer only the snapshots, which need no torch: `ddpctl snapshot` reads them.
    "launcher": [r"base/", r"rendezvous/", r"agent/", r"slurm/",
                 r"trainer/(snapshot_store|snapshot_files|weights_file)\.hpp$",
                 r"trainer/core/(snapshot|manifest|python_checkpoint|python_import|tensor_diff)\.hpp$"],
}

# Directory of launcher/ → which others there it may include, as a pattern. The commands of ddpctl do not know each other.
# A directory's core/ belongs to it; launcher/ctl/core is for all commands.
ALLOWED_IN_LAUNCHER = {
    "launcher": r"launcher/(flags|run)",
    "launcher/flags": r"",
    "launcher/run": r"",
    "launcher/ctl": r"launcher/ctl/\w+",
    "launcher/ctl/core": r"",
    "launcher/ctl/doctor": r"launcher/ctl/core|launcher/flags",  # finds the Python that ddprun would start
    "launcher/ctl/reports": r"launcher/ctl/core",
    "launcher/ctl/snapshot": r"launcher/ctl/core",
    "launcher/ctl/stage": r"launcher/ctl/core",
    "launcher/ctl/status": r"launcher/ctl/core|launcher/flags",  # reads the job's secret as ddprun does
    "launcher/ctl/submit": r"launcher/ctl/core",
}

# What a core must not include: it decides, and never acts.
BANNED_IN_CORE = re.compile(
    r"boost/(asio|process)|base/(deadline|task_scope|log|descriptor|file)\.hpp"
    r"|spdlog|torch|stream|thread|mutex|unistd|sys/")

# Library → its headers, and the files that may see them.
LIBRARIES = {
    "torch": (r"(torch|ATen|c10|caffe2|gloo)/", r"trainer/(?!core/)"),
    "CUDA and NCCL": (r"(cuda|nccl|nvml|nvtx|(ATen|c10)/cuda/|torch/csrc/\S*NCCL)", r"trainer/cuda/"),
    "Boost.Asio": (r"boost/asio", r"(?!base/)|base/(deadline|task_scope)\.(hpp|cpp)$"),
    "Boost.Beast": (r"boost/beast", r"rendezvous/http_(get|sessions)\.cpp$"),
    "Boost.JSON": (r"boost/json", r"rendezvous/core/json_reader\.cpp$"),
    "Boost.Process": (r"boost/process", r"agent/process\.cpp$"),
    "nlohmann/json": (r"nlohmann/", r".*\.cpp$"),
    "yaml-cpp": (r"yaml-cpp/", r".*\.cpp$"),
    "CLI11": (r"CLI/", r".*/(\w+_)?options\.cpp$|base/flag_checks\.hpp$"),
    "libjpeg": (r"(jpeglib|jerror)\.h$", r"trainer/data/jpeg\.cpp$"),
    "libpng": (r"png\.h$", r"trainer/data/png\.cpp$"),
    "libarchive": (r"archive(_entry)?\.h$", r"launcher/ctl/stage/archive_library\.hpp$"),
    "spdlog": (r"spdlog/", r"(?!.*/core/)"),
}


def launcher_directory(path):
    parent = path.rpartition("/")[0]
    return parent if parent == "launcher/ctl/core" else parent.removesuffix("/core")


def cycles(sources):
    """Modules (a header and its source) that include each other, as sets."""
    includes = {}
    for file in sources:
        targets = {module(header) for _, header, ours in file.includes if ours}
        includes.setdefault(module(file.path), set()).update(targets - {module(file.path)})

    def reached_from(start):
        reached, to_visit = set(), [start]
        while to_visit:
            for target in includes.get(to_visit.pop(), ()):
                if target not in reached:
                    reached.add(target)
                    to_visit.append(target)
        return reached

    reach = {name: reached_from(name) for name in includes}
    return {frozenset(other for other in reach[name] if name in reach.get(other, ()))
            for name in reach if name in reach[name]}


def module(path):
    return re.sub(r"\.[ch]pp$", "", path)


def unused_libraries(sources):
    """Libraries of the table that no file includes: the table, or the code, is not what it says."""
    headers = [header for file in sources for _, header, ours in file.includes if not ours]
    return [library for library, (pattern, _) in LIBRARIES.items()
            if not any(re.match(pattern, header) for header in headers)]


def broken_edges(file):
    """The forbidden includes of `file`, one sentence each."""
    if file.room not in ROOMS:
        return []
    sentences = []

    def refuse(line, header, why):
        sentences.append(f"{file.path}:{line}: includes {header}: {why}")

    for line, header, ours in file.includes:
        other = header.split("/")[0]
        if ours and other in ROOMS and other != file.room:
            allowed = ALLOWED_ROOMS[file.room]
            if not any(re.match(pattern, header) for pattern in allowed):
                refuse(line, header, f"{file.room}/ may include only {allowed or 'itself'}; move "
                       "what both need into base/, or let launcher/ pass it as a value")
        if ours and file.room == other == "launcher":
            here, there = launcher_directory(file.path), launcher_directory(header)
            allowed = ALLOWED_IN_LAUNCHER.get(here, "")
            if here != there and not re.fullmatch(allowed, there):
                refuse(line, header, f"of launcher/, {here}/ may include only '{allowed}'")
        if file.in_core:
            if ours and other != "base" and "/core/" not in header:
                refuse(line, header, "a core includes cores and base/ alone; the shell calls it, "
                       "never the reverse")
            elif BANNED_IN_CORE.search(header if not ours or other == "base" else ""):
                refuse(line, header, "a core decides and never acts; take the fact as an argument "
                       "and give the effect back as a value")
        for library, (headers, seen_by) in LIBRARIES.items():
            if not ours and re.match(headers, header) and not re.match(seen_by, file.path):
                refuse(line, header, f"{library} is seen only by files that match '{seen_by}'")
    return sentences


class Layering(unittest.TestCase):
    def test_every_include_is_an_edge_of_the_tables(self):
        broken = [sentence for file in cpp_files() for sentence in broken_edges(file)]
        self.assertEqual([], broken, "\n" + "\n".join(broken))

    def test_no_includes_form_a_cycle(self):
        """The trainer's three are left until its loop is parted."""
        found = cycles([f for f in cpp_files() if f.room in ROOMS and f.room != "trainer"])
        self.assertEqual(set(), found, "let one of them not know the others")

    def test_each_library_of_the_table_is_used(self):
        self.assertEqual([], unused_libraries([f for f in cpp_files() if f.room in ROOMS]))

    def test_each_directory_of_the_launcher_is_in_the_table(self):
        found = {launcher_directory(f.path) for f in cpp_files() if f.room == "launcher"}
        self.assertEqual(set(ALLOWED_IN_LAUNCHER), found)

    def test_a_source_includes_its_own_header_first(self):
        files = {file.path: file for file in cpp_files()}
        broken = []
        for path, file in files.items():
            own = re.sub(r"\.cpp$", ".hpp", path)
            if own != path and own in files and file.includes and file.includes[0][1] != own:
                broken.append(f"{path}: include \"{own}\" first: it proves that it compiles alone")
        self.assertEqual([], broken, "\n" + "\n".join(broken))

    def test_every_header_has_pragma_once(self):
        broken = [f.path for f in cpp_files()
                  if f.path.endswith(".hpp") and not f.text.startswith("#pragma once\n")]
        self.assertEqual([], broken, "these begin with something else than #pragma once")

    def test_the_tree_was_found(self):
        self.assertIn("base/error.hpp", [file.path for file in cpp_files()])


class TheRuleItself(unittest.TestCase):
    """Each of these includes is forbidden, so the check above can fail."""

    def assert_refused(self, path, include):
        self.assertTrue(broken_edges(SourceFile(path, f"#include {include}\n")), (path, include))

    def assert_allowed(self, path, include):
        self.assertEqual([], broken_edges(SourceFile(path, f"#include {include}\n")))

    def test_refuses_an_edge_that_is_not_in_the_table(self):
        self.assert_refused("base/error.cpp", '"agent/streams.hpp"')
        self.assert_refused("agent/worker.cpp", '"trainer/ddp.hpp"')
        self.assert_refused("agent/worker.cpp", '"launcher/flags/options.hpp"')
        self.assert_refused("trainer/ddp.cpp", '"agent/streams.hpp"')
        self.assert_refused("trainer/ddp.cpp", '"rendezvous/store_server.hpp"')
        self.assert_refused("rendezvous/store_server.cpp", '"agent/streams.hpp"')
        self.assert_refused("slurm/core/allocation.cpp", '"launcher/flags/core/flags.hpp"')
        self.assert_refused("agent/agent.cpp", '"slurm/core/allocation.hpp"')
        self.assert_refused("slurm/core/allocation.cpp", '"trainer/core/options.hpp"')
        self.assert_refused("launcher/ctl/snapshot/list.cpp", '"trainer/snapshots.hpp"')
        self.assert_refused("launcher/run/run.cpp", '"trainer/core/options.hpp"')

    def test_refuses_an_edge_between_the_launchers_directories(self):
        self.assert_refused("launcher/run/run.cpp", '"launcher/ctl/status/status.hpp"')
        self.assert_refused("launcher/flags/options.cpp", '"launcher/run/run.hpp"')
        self.assert_refused("launcher/ctl/snapshot/core/snapshot_text.cpp",
                            '"launcher/ctl/doctor/core/diagnosis.hpp"')
        self.assert_refused("launcher/ctl/status/status.cpp", '"launcher/ctl/hostlist.hpp"')
        self.assert_allowed("launcher/ctl/ddpctl.cpp", '"launcher/ctl/submit/submit.hpp"')
        self.assert_allowed("launcher/ctl/doctor/doctor.cpp", '"launcher/ctl/core/byte_size.hpp"')

    def test_sees_a_cycle(self):
        a = SourceFile("base/a.hpp", '#include "base/b.hpp"\n')
        b = SourceFile("base/b.cpp", '#include "base/b.hpp"\n#include "base/a.hpp"\n')
        self.assertEqual({frozenset({"base/a", "base/b"})}, cycles([a, b]))
        self.assertEqual(set(), cycles([a]))

    def test_sees_a_library_that_is_not_used(self):
        self.assertEqual([library for library in LIBRARIES if library != "spdlog"],
                         unused_libraries([SourceFile("base/log.hpp", "#include <spdlog/spdlog.h>\n")]))

    def test_refuses_io_in_a_core(self):
        for header in ("<boost/asio/io_context.hpp>", "<thread>", "<sstream>", "<sys/socket.h>",
                       "<torch/torch.h>", "<spdlog/spdlog.h>", '"base/log.hpp"',
                       '"base/deadline.hpp"', '"agent/streams.hpp"'):
            self.assert_refused("agent/core/supervisor.cpp", header)

    def test_refuses_a_library_outside_its_room(self):
        self.assert_refused("launcher/ddprun.cpp", "<torch/torch.h>")
        self.assert_refused("trainer/core/sampler.cpp", "<ATen/ATen.h>")
        self.assert_refused("trainer/ddp.cpp", "<nccl.h>")
        self.assert_refused("trainer/ddp.cpp", "<c10/cuda/CUDAStream.h>")
        self.assert_refused("trainer/ddp.cpp", "<torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>")
        self.assert_refused("trainer/phase_range.hpp", "<nvtx3/nvToolsExt.h>")
        self.assert_refused("agent/agent.cpp", "<boost/process/v2.hpp>")
        self.assert_refused("agent/process.hpp", "<boost/process/v2.hpp>")
        self.assert_refused("agent/events.hpp", "<nlohmann/json.hpp>")
        self.assert_refused("rendezvous/http_sessions.hpp", "<boost/beast/http.hpp>")
        self.assert_refused("rendezvous/core/json_reader.hpp", "<boost/json.hpp>")
        self.assert_refused("launcher/ddprun.cpp", "<CLI/CLI.hpp>")
        self.assert_refused("launcher/ctl/stage/stage.cpp", "<archive.h>")
        self.assert_refused("trainer/data/transform.cpp", "<jpeglib.h>")
        self.assert_refused("base/error.hpp", "<boost/asio/io_context.hpp>")

    def test_allows_what_the_tables_allow(self):
        self.assert_allowed("agent/agent.cpp", '"rendezvous/store_server.hpp"')
        self.assert_allowed("agent/core/supervisor.cpp", '"agent/core/launch_plan.hpp"')
        self.assert_allowed("agent/core/supervisor.cpp", '"base/error.hpp"')
        self.assert_allowed("agent/process.cpp", "<boost/process/v2/posix/vfork_launcher.hpp>")
        self.assert_allowed("trainer/ddp.cpp", "<torch/torch.h>")
        self.assert_allowed("launcher/ctl/snapshot/list.cpp", '"trainer/snapshot_store.hpp"')
        self.assert_allowed("tests/agent/agent_test.cpp", '"launcher/flags/options.hpp"')


if __name__ == "__main__":
    unittest.main()
