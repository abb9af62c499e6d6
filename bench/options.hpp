#pragma once

// The command line of ddpbench, parsed.

#include "base/error.hpp"
#include "bench/rendezvous_bench.hpp"
#include "bench/store_bench.hpp"

#include <string>
#include <variant>

namespace ddprun {

/// `--help` or `--version`: what to print before a successful end.
struct ShowBenchText {
  std::string text;
};

using BenchCommand = std::variant<ShowBenchText, StoreBenchOptions, RendezvousBenchOptions>;

/// Fails with kInvalidArgument: bad usage, in one line.
Result<BenchCommand> parse_ddpbench(int argc, const char* const* argv);

}  // namespace ddprun
