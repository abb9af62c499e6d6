#pragma once

// How `ddpctl doctor` judges one machine: plain values in, a line of its report out.
// launcher/ctl/doctor/machine.cpp probes the machine; network_diagnosis.hpp judges what concerns
// other machines.

#include "base/error.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// One line of the report. It has a remedy if and only if something is wrong; a warning is a
/// problem that most jobs can run with.
struct Finding {
  std::string subject;  // what was probed; its first word is what --skip takes: "disk /tmp"
  std::string seen;     // the fact, or the cause
  std::string remedy;   // empty: all is well
  bool is_warning = false;

  bool is_well() const { return remedy.empty() || is_warning; }
  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

/// One line each: "[ok] SUBJECT: SEEN" or "[!!] SUBJECT: CAUSE; REMEDY", with the node's name after
/// the mark if `node` is not empty. Control characters become '?'.
std::string findings_text(const Findings& findings, std::string_view node);

/// One JSON object and a newline, as docs/ddpctl.md describes it. Invalid bytes in a text that is
/// not UTF-8 are replaced.
std::string findings_json(const Findings& findings, std::string_view node);

/// Reads what findings_json() wrote. Fails with kProtocol.
Result<Findings> parse_findings(std::string_view json);

/// A finding made from an error; the remedy is the text after its last "; ", else `remedy`.
Finding refused(std::string subject, const Error& error, std::string_view remedy);

/// The file system of a directory.
struct Disk {
  std::string path;
  int error = 0;                 // errno of an attempt to write a few bytes there; 0: success
  std::uint64_t bytes_free = 0;  // for this user
  std::uint64_t bytes = 0;
  std::uint64_t inodes_free = 0;
  std::uint64_t inodes = 0;  // 0: the file system does not count them
};

/// Requires `bytes_min` and a thousand inodes free, and that this user may write.
Finding judge_disk(const Disk& disk, std::uint64_t bytes_min);

/// /dev/shm. Containers give it 64 MiB by default, which NCCL and data loaders soon use up.
Finding judge_shm(const Disk& disk);

struct DataPath {
  std::string path;
  int error = 0;            // errno of an attempt to read its first byte or entry
  std::string link_target;  // the target if `path` is a symbolic link; empty: it is not
  bool is_directory = false;
  bool is_empty = false;
  std::uint64_t bytes = 0;  // if it is a file
};

Finding judge_data(const DataPath& data);

/// A resource limit of this process and its children; nullopt means unlimited.
struct Limits {
  std::optional<std::uint64_t> open_files, open_files_hard;
  std::optional<std::uint64_t> processes;
  std::optional<std::uint64_t> locked_bytes;
  std::optional<std::uint64_t> core_bytes;
  bool has_infiniband = false;  // InfiniBand locks the memory that it sends
  std::uint64_t nodes = 1;      // of the job
};

/// One line each for open files, processes, locked memory and core dumps.
Findings judge_limits(const Limits& limits);

/// NVIDIA GPUs, by their device files: no driver is loaded and no context is created.
struct Gpus {
  int devices = 0;                     // /dev/nvidiaN
  int permitted = 0;                   // of these, those that this process may open
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES
  std::optional<int> of_step;          // SLURM_GPUS_ON_NODE
};

Finding judge_gpus(const Gpus& gpus);

/// The Python with which ddprun would run a script, as its files show. If it is a script that
/// starts another Python, as pyenv's shims are, it was run once to find that Python.
struct PythonInstallation {
  std::optional<Error> error;  // why there is none
  std::string program;
  std::string starts;                // if it is a script: the Python behind it
  std::optional<Error> unknown_why;  // if it is a script: why its Python is not known
  std::string version;               // "3.11"; empty: not known
  std::string torch;                 // "2.11.0+cu130"; empty: no torch
  std::string cuda;                  // that torch was built for: "13.0"; empty: none
  std::string nccl;                  // from its packages: "2.28.9"; empty: none, or not known
  std::optional<int> driver;         // major version of NVIDIA's driver here: 580
  int gpus = 0;                      // NVIDIA devices here
};

/// Requires a torch that can use the GPUs of this machine. No torch at all is a warning: ddptrain
/// does not need it.
Finding judge_python(const PythonInstallation& python);

struct Port {
  std::uint16_t number = 0;
  std::optional<Error> error;  // why this process may not listen there
  std::string owner;           // which process does, if /proc shows it: "python3 (pid 812)"
  std::optional<std::string> job = std::nullopt;  // which that process runs; its id, or empty
};

/// A port that a running job has is no fault: the job is well.
Finding judge_port(const Port& port);

/// "job 'x'", or "a job" if its id is not known.
std::string name_of_job(const std::string& id);

/// What the kernel reports about its clock (adjtimex).
struct KernelClock {
  bool is_synchronised = false;
  double error_s = 0;  // the maximum, as the kernel estimates it
};

/// An unsynchronised clock is a warning: no deadline of ddprun depends on it.
Finding judge_clock(const KernelClock& clock);

/// What Slurm's variables say, and whether they contradict each other: a line for the step, and in
/// a job one for its list of hosts.
Findings judge_slurm(const std::map<std::string, std::string>& environment);

}  // namespace ddprun
