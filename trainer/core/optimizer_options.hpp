#pragma once

#include "base/error.hpp"

#include <array>
#include <cstdint>

namespace ddprun {

enum class OptimizerKind : std::uint8_t { kSgd, kAdam, kAdamW, kAdadelta, kRmsProp, kAdagrad };

inline constexpr std::array kOptimizerKinds = {
    OptimizerKind::kSgd,
    OptimizerKind::kAdam,
    OptimizerKind::kAdamW,
    OptimizerKind::kAdadelta,
    OptimizerKind::kRmsProp,
    OptimizerKind::kAdagrad};

/// The flag value that names it.
const char* name_of(OptimizerKind kind);

/// The parameters of an optimizer; each kind reads those marked with its name. The defaults are
/// those of Python's SGD; default_options() has those of the other kinds.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = 1e-3;     // all
  double weight_decay = 0;         // all; AdamW's is decoupled from the gradient
  double momentum = 0;             // SGD, RMSprop: 0 keeps no buffer
  bool is_nesterov = false;        // SGD, with momentum
  double beta1 = 0.9;              // Adam, AdamW: of the first moment
  double beta2 = 0.999;            // Adam, AdamW: of the second moment
  double smoothing = 0.9;          // Adadelta's rho, RMSprop's alpha
  double epsilon = 0;              // all but SGD: keeps a divisor from 0
  double learning_rate_decay = 0;  // Adagrad
  bool is_centered = false;        // RMSprop: divides by the deviation, not the root mean square
};

/// The defaults of Python's torch.optim class of this name.
OptimizerOptions default_options(OptimizerKind kind);

/// Fails with kInvalidArgument, naming option and value, if Python's constructor would refuse: a
/// negative or infinite number, a beta of 1 or more, Nesterov without momentum.
Result<void> check_optimizer(const OptimizerOptions& options);

}  // namespace ddprun
