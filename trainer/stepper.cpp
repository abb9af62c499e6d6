#include "trainer/stepper.hpp"

#include "trainer/autocast.hpp"
#include "trainer/clip.hpp"
#include "trainer/core/snapshot.hpp"
#include "trainer/phase_range.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

/// Autocast around a forward pass and its loss, if requested.
class ForwardPrecision {
 public:
  ForwardPrecision(Precision precision, torch::Device device) {
    if (precision == Precision::kFloat32) return;
    autocast_.emplace(
        device.type(), precision == Precision::kBFloat16 ? torch::kBFloat16 : torch::kHalf);
  }

 private:
  std::optional<Autocast> autocast_;
};

/// The number of samples whose label is among the `k` highest scores of `output` (N, classes).
std::int64_t count_correct(
    const torch::Tensor& output, const torch::Tensor& labels, std::int64_t k) {
  if (k == 1) return output.argmax(1).eq(labels).sum().item<std::int64_t>();
  const std::int64_t most = std::min(k, output.size(1));
  const torch::Tensor highest = std::get<1>(output.topk(most, 1));
  return highest.eq(labels.unsqueeze(1)).sum().item<std::int64_t>();
}

}  // namespace

Stepper::Stepper(const TrainOptions& options, torch::Device device, Ddp& ddp, Optimizer& optimizer)
    : options_(options), device_(device), ddp_(ddp), optimizer_(optimizer) {
  if (options.precision != Precision::kFloat16) return;
  scaler_ = std::make_unique<GradScaler>(GradScalerOptions(), device);
}

void Stepper::begin() {
  ddp_.zero_grad();
}

torch::Tensor Stepper::loss_of(const torch::Tensor& output, const torch::Tensor& labels) const {
  return ddp_.model().loss(output, labels);
}

Stepper::Pass Stepper::pass(const Batch& batch, Gradients gradients) {
  torch::Tensor output;
  torch::Tensor loss;
  {
    const PhaseRange range(kForwardRange);
    const ForwardPrecision precision(options_.precision, device_);
    output = ddp_.forward(batch.images, gradients);
    loss = loss_of(output, batch.labels);
  }
  torch::Tensor driven = loss;
  if (options_.accumulate > 1) driven = driven / static_cast<double>(options_.accumulate);  // P8
  if (scaler_) driven = scaler_->scale(driven);
  {
    const PhaseRange range(kBackwardRange);
    driven.backward();  // averages the gradients over all ranks, if it reduces
  }
  return {.loss = loss.item<double>(), .right = count_correct(output.detach(), batch.labels, 1)};
}

Stepper::Update Stepper::update(double learning_rate) {
  const PhaseRange range(kOptimizerRange);
  Update update;
  optimizer_.set_learning_rate(learning_rate);
  if (scaler_) scaler_->unscale(optimizer_);
  if (options_.clip_norm) {
    update.gradient_norm = clip_gradients(optimizer_.parameters(), *options_.clip_norm);
  }
  if (scaler_) {
    update.is_skipped = !scaler_->step(optimizer_);
    scaler_->update();
  } else {
    optimizer_.step();
  }
  return update;
}

Stepper::Scores Stepper::evaluate(const Batch& batch) {
  const torch::NoGradGuard no_gradients;
  const ForwardPrecision precision(options_.precision, device_);
  const torch::Tensor output = ddp_.evaluate(batch.images);
  return {
      .loss = loss_of(output, batch.labels).item<double>(),
      .right = count_correct(output, batch.labels, 1),
      .top5_correct = count_correct(output, batch.labels, 5)};
}

std::vector<std::string> Stepper::state_names(const TrainOptions& options) {
  std::vector<std::string> names;
  if (options.precision != Precision::kFloat16) return names;
  for (const auto& [name, value] : GradScaler().state()) {
    names.push_back(kScalerPrefix + name);
  }
  return names;
}

std::map<std::string, double> Stepper::state() const {
  std::map<std::string, double> state;
  if (!scaler_) return state;
  for (const auto& [name, value] : scaler_->state()) {
    state.emplace(kScalerPrefix + name, value);
  }
  return state;
}

Result<void> Stepper::load(const std::map<std::string, double>& state) {
  if (!scaler_) return {};
  std::map<std::string, double> of_scaler;
  for (const auto& [name, value] : state) {
    if (name.starts_with(kScalerPrefix)) {
      of_scaler.emplace(name.substr(std::string_view(kScalerPrefix).size()), value);
    }
  }
  return scaler_->load(of_scaler);
}

}  // namespace ddprun
