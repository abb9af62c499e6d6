#pragma once

// What `ddpctl doctor` makes of what it sees on one machine: plain values in, a line of its report
// out. Looking is done by launcher/ctl/doctor/machine.cpp; what concerns other machines is judged
// in network_diagnosis.hpp, what Slurm says in slurm_diagnosis.hpp.

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// One line of the report. Something is wrong exactly if there is something to do about it; a
/// warning is what most jobs run well with.
struct Finding {
  std::string subject;  // what was looked at; its first word is what --skip takes: "disk /tmp"
  std::string seen;     // the fact, or the cause
  std::string remedy;   // empty: all is well
  bool is_warning = false;

  bool is_well() const { return remedy.empty() || is_warning; }
  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

/// A finding made of a refusal, whose remedy stands behind its last "; ", else is `remedy`.
Finding refused(std::string subject, const Error& error, std::string_view remedy);

/// "1.5 GiB".
std::string size_text(std::uint64_t bytes);

/// Reads a number of bytes, with K, M, G or T behind it for powers of 1024: "512M". Fails with
/// kInvalidArgument.
Result<std::uint64_t> parse_size(std::string_view text);

/// A file system, by a directory on it.
struct Disk {
  std::string path;
  int error = 0;  // errno of an attempt to write a few bytes there; 0: they could be written
  std::uint64_t bytes_free = 0;  // for this user
  std::uint64_t bytes = 0;
  std::uint64_t inodes_free = 0;
  std::uint64_t inodes = 0;  // 0: it does not count them
};

/// Wants `bytes_min` and a thousand inodes free, and that this user may write.
Finding judge_disk(const Disk& disk, std::uint64_t bytes_min);

/// /dev/shm. Containers give 64 MiB of it unless told, which NCCL and data loaders soon use up.
Finding judge_shm(const Disk& disk);

struct DataPath {
  std::string path;
  int error = 0;            // errno of an attempt to read the first of it
  std::string link_target;  // where `path` leads as a symbolic link; empty: it is none
  bool is_directory = false;
  bool is_empty = false;
  std::uint64_t bytes = 0;  // of a file
};

Finding judge_data(const DataPath& data);

/// A resource limit of this process and its children; none stands for unlimited.
struct Limits {
  std::optional<std::uint64_t> open_files, open_files_hard;
  std::optional<std::uint64_t> processes;
  std::optional<std::uint64_t> locked_bytes;
  std::optional<std::uint64_t> core_bytes;
  bool has_infiniband = false;  // which locks the memory that it sends
  std::uint64_t nodes = 1;      // of the job
};

/// A line each for open files, processes, locked memory and core dumps.
Findings judge_limits(const Limits& limits);

/// NVIDIA's, by their device files: no driver is loaded for it, and no context made.
struct Gpus {
  int devices = 0;                     // /dev/nvidiaN
  int permitted = 0;                   // of these, those that this process may open
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES
  std::optional<int> of_step;          // SLURM_GPUS_ON_NODE
};

Finding judge_gpus(const Gpus& gpus);

/// The Python that ddprun would run a script by, as its files tell. A script that starts another
/// Python, as pyenv's shims do, was run once, and that Python told.
struct PythonInstallation {
  std::optional<Error> error;  // why there is none
  std::string program;
  std::string starts;           // if it is a script: the Python behind it
  std::optional<Error> untold;  // if it is a script: why it is not known what it starts
  std::string version;          // "3.11"; empty: not known
  std::string torch;            // "2.11.0+cu130"; empty: it has none
  std::string cuda;             // that torch was built for: "13.0"; empty: none
  std::string nccl;             // of its packages: "2.28.9"; empty: none, or not known
  std::optional<int> driver;    // NVIDIA's here, its first number: 580
  int gpus = 0;                 // devices of NVIDIA's here
};

/// Wants a torch that can use the GPUs that are here. None at all is a warning: ddptrain needs
/// none.
Finding judge_python(const PythonInstallation& python);

struct Port {
  std::uint16_t number = 0;
  std::optional<Error> error;  // why this process may not listen there
  std::string owner;           // who does, if /proc tells: "python3 (pid 812)"
};

Finding judge_port(const Port& port);

/// What the kernel knows of its own clock (adjtimex).
struct KernelClock {
  bool is_synchronised = false;
  double error_s = 0;  // at most, as it estimates
};

/// One that nothing synchronises is a warning: no deadline of ddprun's depends on it.
Finding judge_clock(const KernelClock& clock);

}  // namespace ddprun
