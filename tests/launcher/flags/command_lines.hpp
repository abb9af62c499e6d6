#pragma once

// Command lines as a test writes them.

#include "launcher/flags/core/options.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun {

using Arguments = std::vector<std::string>;

inline Result<Options> read(const Arguments& arguments, const Environment& environment = {}) {
  const auto line = read_command_line(arguments, environment);
  if (!line) return line.error();
  return read_options(*line, environment);
}

/// The plan of a command line that must be right.
inline Options options_of(const Arguments& arguments, const Environment& environment = {}) {
  auto options = read(arguments, environment);
  EXPECT_TRUE(options) << (options ? "" : options.error().detail);
  return options ? *options : Options();
}

/// The error message of a wrong one; the script is appended.
inline std::string complaint(Arguments arguments, const Environment& environment = {}) {
  arguments.emplace_back("train.py");
  const auto options = read(arguments, environment);
  return options ? "accepted" : options.error().detail;
}

}  // namespace ddprun
