#pragma once

// Command lines as a test writes them.

#include "launcher/core/options.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun {

using Words = std::vector<std::string>;

inline Result<Options> read(const Words& words, const Environment& environment = {}) {
  const auto line = read_command_line(words, environment);
  if (!line) return line.error();
  return read_options(*line, environment);
}

/// The plan of a command line that must be right.
inline Options options_of(const Words& words, const Environment& environment = {}) {
  auto options = read(words, environment);
  EXPECT_TRUE(options) << (options ? "" : options.error().detail);
  return options ? *options : Options();
}

/// What is said about one that must be wrong; the script is appended.
inline std::string complaint(Words words, const Environment& environment = {}) {
  words.emplace_back("train.py");
  const auto options = read(words, environment);
  return options ? "accepted" : options.error().detail;
}

}  // namespace ddprun
