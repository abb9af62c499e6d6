#include "trainer/update_rule.hpp"

#include "base/check.hpp"

#include <cmath>

namespace ddprun {
namespace {

using torch::Tensor;

/// The gradient plus weight_decay · weights, in spare 0; without decay the gradient itself.
Tensor decayed(const Stretch& stretch, double weight_decay) {
  if (weight_decay == 0) return stretch.gradient;
  Tensor out = stretch.spare[0];
  return at::add_out(out, stretch.gradient, stretch.weights, weight_decay);
}

/// √values in spare 1.
Tensor root(const Stretch& stretch, const Tensor& values) {
  Tensor out = stretch.spare[1];
  return at::sqrt_out(out, values);
}

/// average ← decay · average + (1 - decay) · values², with Python's intermediate rounding.
void move_square(const Tensor& average, double decay, const Tensor& values) {
  average.mul_(decay).addcmul_(values, values, 1 - decay);
}

class Sgd final : public UpdateRule {
 public:
  explicit Sgd(const OptimizerOptions& options) : options_(options) {}

  std::vector<std::string> keys() const override {
    if (options_.momentum == 0) return {};
    return {"momentum_buffer"};
  }
  bool counts_steps() const override { return false; }
  void begin(const UpdateMoment& moment) override { moment_ = moment; }

  void update(const Stretch& stretch) override {
    Tensor gradient = decayed(stretch, options_.weight_decay);
    if (options_.momentum != 0) {
      Tensor buffer = stretch.state[0];
      // Not 0 · momentum + gradient, which turns -0 into 0.
      if (moment_.is_first) {
        buffer.copy_(gradient);
      } else {
        buffer.mul_(options_.momentum).add_(gradient);
      }
      gradient = options_.is_nesterov ? ahead(stretch, gradient, buffer) : buffer;
    }
    Tensor weights = stretch.weights;
    weights.add_(gradient, -moment_.learning_rate);
  }

 private:
  Tensor ahead(const Stretch& stretch, const Tensor& gradient, const Tensor& buffer) const {
    Tensor out = stretch.spare[1];
    return at::add_out(out, gradient, buffer, options_.momentum);
  }

  OptimizerOptions options_;
  UpdateMoment moment_;
};

/// Adam and AdamW.
class Adam final : public UpdateRule {
 public:
  explicit Adam(const OptimizerOptions& options) : options_(options) {}

  std::vector<std::string> keys() const override { return {"exp_avg", "exp_avg_sq"}; }

  void begin(const UpdateMoment& moment) override {
    const double correction1 = 1 - std::pow(options_.beta1, moment.step);
    const double correction2 = 1 - std::pow(options_.beta2, moment.step);
    step_size_ = moment.learning_rate / correction1;
    correction2_root_ = std::pow(correction2, 0.5);
    shrink_ = 1 - moment.learning_rate * options_.weight_decay;
  }

  void update(const Stretch& stretch) override {
    const bool is_decoupled = options_.kind == OptimizerKind::kAdamW;
    Tensor weights = stretch.weights;
    if (is_decoupled && options_.weight_decay != 0) weights.mul_(shrink_);
    const Tensor gradient = decayed(stretch, is_decoupled ? 0 : options_.weight_decay);

    Tensor mean = stretch.state[0];
    const Tensor& square = stretch.state[1];
    mean.lerp_(gradient, 1 - options_.beta1);  // libtorch's own Adam multiplies and adds (P14)
    move_square(square, options_.beta2, gradient);
    Tensor divisor = root(stretch, square);
    divisor.div_(correction2_root_).add_(options_.epsilon);
    weights.addcdiv_(mean, divisor, -step_size_);
  }

 private:
  OptimizerOptions options_;
  double step_size_ = 0;
  double correction2_root_ = 1;
  double shrink_ = 1;
};

class Adadelta final : public UpdateRule {
 public:
  explicit Adadelta(const OptimizerOptions& options) : options_(options) {}

  std::vector<std::string> keys() const override { return {"square_avg", "acc_delta"}; }
  void begin(const UpdateMoment& moment) override { learning_rate_ = moment.learning_rate; }

  void update(const Stretch& stretch) override {
    const Tensor gradient = decayed(stretch, options_.weight_decay);
    const Tensor& square = stretch.state[0];
    const Tensor& moved = stretch.state[1];
    move_square(square, options_.smoothing, gradient);
    const Tensor deviation = root_above_epsilon(stretch.spare[1], square);
    Tensor delta = root_above_epsilon(stretch.spare[2], moved);
    delta.div_(deviation).mul_(gradient);
    move_square(moved, options_.smoothing, delta);
    Tensor weights = stretch.weights;
    weights.add_(delta, -learning_rate_);
  }

 private:
  Tensor root_above_epsilon(const Tensor& out, const Tensor& values) const {
    return out.copy_(values).add_(options_.epsilon).sqrt_();
  }

  OptimizerOptions options_;
  double learning_rate_ = 0;
};

class RmsProp final : public UpdateRule {
 public:
  explicit RmsProp(const OptimizerOptions& options) : options_(options) {}

  std::vector<std::string> keys() const override {
    std::vector<std::string> keys{"square_avg"};
    if (options_.momentum > 0) keys.emplace_back("momentum_buffer");
    if (options_.is_centered) keys.emplace_back("grad_avg");
    return keys;
  }
  void begin(const UpdateMoment& moment) override { learning_rate_ = moment.learning_rate; }

  void update(const Stretch& stretch) override {
    const Tensor gradient = decayed(stretch, options_.weight_decay);
    const Tensor& square = stretch.state[0];
    move_square(square, options_.smoothing, gradient);
    Tensor divisor = options_.is_centered ? deviation(stretch, gradient) : root(stretch, square);
    divisor.add_(options_.epsilon);
    Tensor weights = stretch.weights;
    if (options_.momentum > 0) {
      Tensor buffer = stretch.state[1];
      buffer.mul_(options_.momentum).addcdiv_(gradient, divisor);
      weights.add_(buffer, -learning_rate_);
    } else {
      weights.addcdiv_(gradient, divisor, -learning_rate_);
    }
  }

 private:
  Tensor deviation(const Stretch& stretch, const Tensor& gradient) const {
    Tensor mean = stretch.state.back();
    mean.lerp_(gradient, 1 - options_.smoothing);
    Tensor out = stretch.spare[1];
    return at::addcmul_out(out, stretch.state[0], mean, mean, -1).sqrt_();
  }

  OptimizerOptions options_;
  double learning_rate_ = 0;
};

class Adagrad final : public UpdateRule {
 public:
  explicit Adagrad(const OptimizerOptions& options) : options_(options) {}

  std::vector<std::string> keys() const override { return {"sum"}; }
  bool starts_with_state() const override { return true; }

  void begin(const UpdateMoment& moment) override {
    rate_ = moment.learning_rate / (1 + (moment.step - 1) * options_.learning_rate_decay);
  }

  void update(const Stretch& stretch) override {
    const Tensor gradient = decayed(stretch, options_.weight_decay);
    Tensor sum = stretch.state[0];
    sum.addcmul_(gradient, gradient);
    Tensor divisor = root(stretch, sum);
    divisor.add_(options_.epsilon);
    Tensor weights = stretch.weights;
    weights.addcdiv_(gradient, divisor, -rate_);
  }

 private:
  OptimizerOptions options_;
  double rate_ = 0;
};

}  // namespace

std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options) {
  DDPRUN_CHECK(check_optimizer(options).has_value());
  switch (options.kind) {
    case OptimizerKind::kSgd:
      return std::make_unique<Sgd>(options);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return std::make_unique<Adam>(options);
    case OptimizerKind::kAdadelta:
      return std::make_unique<Adadelta>(options);
    case OptimizerKind::kRmsProp:
      return std::make_unique<RmsProp>(options);
    case OptimizerKind::kAdagrad:
      return std::make_unique<Adagrad>(options);
  }
  return nullptr;
}

}  // namespace ddprun
