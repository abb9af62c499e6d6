#pragma once

// Runs another program to its end, in a process that may block. Workers are started by
// agent/process.hpp.

#include "base/error.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun {

inline constexpr std::size_t kProgramOutputMax = 64UL << 20U;  // bytes of output that are kept

/// How a program ended, and what it printed.
struct ProgramEnd {
  int status = 0;  // as in a shell: 128 + n for signal n
  std::string out;
  std::string err;
};

/// Runs arguments[0], looked up on PATH, with empty input, and captures its output. `settings` are
/// variables ("NAME=value") that take precedence over the environment. Fails with kNotFound,
/// kNotExecutable, kIo, or with kLimit if it prints more than kProgramOutputMax.
Result<ProgramEnd> run_program(
    const std::vector<std::string>& arguments, const std::vector<std::string>& settings = {});

/// The same with our own streams; yields the status. Fails as above.
Result<int> run_in_guard(
    const std::vector<std::string>& arguments, const std::vector<std::string>& settings = {});

}  // namespace ddprun
