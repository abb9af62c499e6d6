#include "trainer/grad_scaler.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ddprun {
namespace {

constexpr char kScale[] = "scale";
constexpr char kGrowthFactor[] = "growth_factor";
constexpr char kBackoffFactor[] = "backoff_factor";
constexpr char kGrowthInterval[] = "growth_interval";
constexpr char kGrowthTracker[] = "_growth_tracker";

bool is_count(double value, double least) {
  return value >= least && value <= std::numeric_limits<std::int32_t>::max() &&
         value == std::floor(value);
}

/// The scale is float32: a larger value could not be restored.
bool is_scale(double value) {
  return value > 0 && value <= static_cast<double>(std::numeric_limits<float>::max());
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options, torch::Device device)
    : options_(options),
      scale_(torch::full({}, options.init_scale, torch::dtype(torch::kFloat32).device(device))),
      growth_tracker_(torch::zeros({}, torch::dtype(torch::kInt32).device(device))),
      found_inf_(torch::zeros({}, torch::dtype(torch::kFloat32).device(device))) {
  DDPRUN_CHECK(is_scale(options.init_scale) && options.growth_factor > 1);
  DDPRUN_CHECK(options.backoff_factor > 0 && options.backoff_factor < 1);
  DDPRUN_CHECK(options.growth_interval > 0);
}

torch::Tensor GradScaler::scale(const torch::Tensor& loss) const {
  return loss * scale_;
}

void GradScaler::unscale(const Optimizer& optimizer) {
  DDPRUN_CHECK(stage_ == Stage::kReady);
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : optimizer.parameters()) {
    if (!parameter.grad().defined()) continue;
    // A float16 gradient has already lost what the scale should save.
    DDPRUN_CHECK(parameter.grad().scalar_type() != torch::kFloat16);
    gradients.push_back(parameter.grad());
  }
  found_inf_.zero_();
  const torch::Tensor inverse = scale_.to(torch::kFloat64).reciprocal().to(torch::kFloat32);
  if (!gradients.empty()) {
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, inverse);
  }
  stage_ = Stage::kUnscaled;
}

bool GradScaler::step(Optimizer& optimizer) {
  if (stage_ == Stage::kReady) unscale(optimizer);
  DDPRUN_CHECK(stage_ == Stage::kUnscaled);
  stage_ = Stage::kStepped;
  if (found_inf_.item<float>() != 0) return false;
  optimizer.step();
  return true;
}

void GradScaler::update() {
  DDPRUN_CHECK(stage_ != Stage::kReady);
  at::_amp_update_scale_(
      scale_,
      growth_tracker_,
      found_inf_,
      options_.growth_factor,
      options_.backoff_factor,
      options_.growth_interval);
  stage_ = Stage::kReady;
}

std::map<std::string, double> GradScaler::state() const {
  return {
      {kScale, current_scale()},
      {kGrowthFactor, options_.growth_factor},
      {kBackoffFactor, options_.backoff_factor},
      {kGrowthInterval, static_cast<double>(options_.growth_interval)},
      {kGrowthTracker, growth_tracker_.item<double>()}};
}

Result<void> GradScaler::load(const std::map<std::string, double>& state) {
  const auto value = [&state](const char* key) {
    const auto found = state.find(key);
    return found == state.end() ? std::nan("") : found->second;
  };
  const auto refused = [&value](const char* key) {
    return make_error(Errc::kCorrupt, fmt::format("the grad scaler's '{}' is {}", key, value(key)));
  };
  if (!is_scale(value(kScale))) return refused(kScale);
  const double growth = value(kGrowthFactor);
  if (!std::isfinite(growth) || growth <= 1) return refused(kGrowthFactor);
  const double backoff = value(kBackoffFactor);
  const bool is_share = backoff > 0 && backoff < 1;  // false for NaN
  if (!is_share) return refused(kBackoffFactor);
  if (!is_count(value(kGrowthInterval), 1)) return refused(kGrowthInterval);
  if (!is_count(value(kGrowthTracker), 0)) return refused(kGrowthTracker);

  options_.growth_factor = growth;
  options_.backoff_factor = backoff;
  options_.growth_interval = static_cast<std::int64_t>(value(kGrowthInterval));
  scale_.fill_(value(kScale));
  growth_tracker_.fill_(value(kGrowthTracker));
  stage_ = Stage::kReady;
  return {};
}

}  // namespace ddprun
