#pragma once

#include "base/error.hpp"
#include "trainer/core/options.hpp"

#include <string>
#include <variant>

namespace ddprun {

/// The text to print instead of training, for --help and --version.
struct PrintAndLeave {
  std::string text;
};

/// Reads the command line of ddptrain. Fails with kInvalidArgument: the value, why it is refused,
/// and the remedy, in one line.
Result<std::variant<TrainOptions, PrintAndLeave>> parse_train_options(
    int argc, const char* const* argv);

}  // namespace ddprun
