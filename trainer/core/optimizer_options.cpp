#include "trainer/core/optimizer_options.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace ddprun {
namespace {

struct Range {
  const char* name;
  double value;
  double limit;  // the first value that is too large
};

}  // namespace

const char* name_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return "sgd";
    case OptimizerKind::kAdam:
      return "adam";
    case OptimizerKind::kAdamW:
      return "adamw";
    case OptimizerKind::kAdadelta:
      return "adadelta";
    case OptimizerKind::kRmsProp:
      return "rmsprop";
    case OptimizerKind::kAdagrad:
      return "adagrad";
  }
  return "";
}

OptimizerOptions default_options(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return {};
    case OptimizerKind::kAdam:
      return {.kind = kind, .epsilon = 1e-8};
    case OptimizerKind::kAdamW:
      return {.kind = kind, .weight_decay = 0.01, .epsilon = 1e-8};
    case OptimizerKind::kAdadelta:
      return {.kind = kind, .learning_rate = 1.0, .smoothing = 0.9, .epsilon = 1e-6};
    case OptimizerKind::kRmsProp:
      return {.kind = kind, .learning_rate = 0.01, .smoothing = 0.99, .epsilon = 1e-8};
    case OptimizerKind::kAdagrad:
      return {.kind = kind, .learning_rate = 0.01, .epsilon = 1e-10};
  }
  return {};
}

Result<void> check_optimizer(const OptimizerOptions& options) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const double past_one = std::nextafter(1.0, 2.0);
  // NOLINTBEGIN(modernize-use-designated-initializers): a table; the columns are those of Range
  for (const auto& [name, value, limit] :
       {Range{"learning rate", options.learning_rate, kNone},
        Range{"weight decay", options.weight_decay, kNone},
        Range{"momentum", options.momentum, kNone},
        Range{"beta1", options.beta1, 1},
        Range{"beta2", options.beta2, 1},
        Range{"smoothing", options.smoothing, past_one},
        Range{"epsilon", options.epsilon, kNone},
        Range{"learning rate decay", options.learning_rate_decay, kNone}}) {
    // NOLINTEND(modernize-use-designated-initializers)
    if (value >= 0 && value < limit) continue;
    return make_error(
        Errc::kInvalidArgument,
        fmt::format("{}: {} is out of range for {}", name_of(options.kind), value, name));
  }
  if (options.is_nesterov && options.momentum == 0) {
    return make_error(Errc::kInvalidArgument, "nesterov needs a momentum above 0");
  }
  return {};
}

}  // namespace ddprun
