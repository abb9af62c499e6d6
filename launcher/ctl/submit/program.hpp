#pragma once

// Another program, run to its end, by a process that may wait for it. A worker is started
// otherwise: agent/process.hpp.

#include "base/error.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun {

inline constexpr std::size_t kProgramOutputMax = 64UL << 20U;  // bytes that are kept

/// How a program ended, and what it printed.
struct ProgramEnd {
  int status = 0;  // as shells count: 128 + n for signal n
  std::string out;
  std::string err;
};

/// Runs words[0], looked up in PATH, with nothing to read, and keeps what it prints. `settings` are
/// variables ("NAME=value") that win over ours. Fails with kNotFound, kNotExecutable, kIo, or with
/// kLimit where it printed more than kProgramOutputMax.
Result<ProgramEnd> run_program(
    const std::vector<std::string>& arguments, const std::vector<std::string>& settings = {});

/// The same with our own streams; yields the status. Fails as above.
Result<int> run_in_guard(
    const std::vector<std::string>& arguments, const std::vector<std::string>& settings = {});

}  // namespace ddprun
