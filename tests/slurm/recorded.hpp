#pragma once

// The environments in tests/slurm/environments: recorded on a cluster of four nodes with four GPUs
// each, Slurm 22.05.8. A file's name says what was started.

#include "base/environment.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace ddprun::testing {

inline Environment recorded(const std::string& name) {
  std::ifstream file(DDPRUN_TEST_ENVIRONMENTS "/" + name + ".env");
  EXPECT_TRUE(file) << name;
  Environment environment;
  for (std::string line; std::getline(file, line);) {
    const std::size_t equals = line.find('=');
    environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return environment;
}

}  // namespace ddprun::testing
