#include "trainer/optimizer.hpp"

#include "base/check.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

/// The number of elements of a stretch. Temporary values of a rule fit into 1 MB per spare tensor,
/// which is kept. Python allocates such tensors in each step, as large as the parameter: with a
/// parameter of a million elements, fresh pages from the kernel are two thirds of an Adam step.
///
/// The cuts do not change the result. An ATen kernel processes whole vectors from the front, at
/// most twice 64 bytes, and the remainder one by one, with scalar operations that may round
/// differently. A multiple of that width leaves every element in its group.
constexpr std::int64_t kStretchElements = 262'144;

/// With several threads ATen splits a large tensor among them, and each thread has its own
/// remainder: then only whole tensors give Python's bits.
bool can_be_cut(const Stretch& whole) {
  const auto is_flat = [](const torch::Tensor& tensor) { return tensor.is_contiguous(); };
  // On a GPU each stretch would need its own kernel launch.
  return whole.weights.is_cpu() && at::get_num_threads() == 1 && is_flat(whole.weights) &&
         is_flat(whole.gradient) && std::ranges::all_of(whole.state, is_flat);
}

}  // namespace

Optimizer::Optimizer(
    std::unique_ptr<UpdateRule> rule, double learning_rate, const Parameters& parameters)
    : rule_(std::move(rule)), keys_(rule_->keys()), learning_rate_(learning_rate) {
  for (const auto& item : parameters) {
    parameters_.push_back(item.value());
    slots_.push_back({.name = item.key(), .step = {}, .state = {}});
  }
  if (!rule_->starts_with_state()) return;
  static_cast<void>(make_state(torch::ones({std::ssize(slots_)}, torch::kUInt8)));
}

void Optimizer::step() {
  const torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;
    const bool is_first = !slots_[i].step.defined();
    if (is_first) make_slot(slots_[i], parameters_[i]);
    float& step = *slots_[i].step.mutable_data_ptr<float>();
    step += 1;
    rule_->begin({.learning_rate = learning_rate_, .step = step, .is_first = is_first});
    update(slots_[i], parameters_[i]);
  }
}

void Optimizer::set_learning_rate(double learning_rate) {
  DDPRUN_CHECK(std::isfinite(learning_rate) && learning_rate >= 0);
  learning_rate_ = learning_rate;
}

NamedTensors Optimizer::state() const {
  NamedTensors tensors;
  for (const Slot& slot : slots_) {
    if (!slot.step.defined()) continue;
    if (rule_->counts_steps()) tensors.emplace_back(slot.name + ".step", slot.step);
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      tensors.emplace_back(slot.name + "." + keys_[i], slot.state[i]);
    }
  }
  return tensors;
}

torch::Tensor Optimizer::has_state() const {
  torch::Tensor marks = torch::zeros({std::ssize(slots_)}, torch::kUInt8);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    marks[static_cast<std::int64_t>(i)] = slots_[i].step.defined() ? 1 : 0;
  }
  return marks;
}

NamedTensors Optimizer::make_state(const torch::Tensor& has_state) {
  DDPRUN_CHECK(has_state.numel() == std::ssize(slots_));
  const auto* mark = has_state.const_data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (*mark++ != 0) make_slot(slots_[i], parameters_[i]);
  }
  return state();
}

NamedTensors Optimizer::make_state(const std::vector<TensorView>& saved) {
  std::set<std::string_view> owners;
  for (const TensorView& tensor : saved) {
    const std::string_view name = tensor.name;
    owners.insert(name.substr(0, name.rfind('.')));
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (owners.contains(slots_[i].name)) make_slot(slots_[i], parameters_[i]);
  }
  return state();
}

void Optimizer::make_slot(Slot& slot, const torch::Tensor& parameter) const {
  slot.step = torch::zeros({}, torch::kFloat32);
  slot.state.clear();
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    slot.state.push_back(torch::zeros_like(parameter.detach()));
  }
}

void Optimizer::update(const Slot& slot, const torch::Tensor& parameter) {
  const torch::Tensor& gradient = parameter.grad();
  DDPRUN_CHECK(!gradient.is_sparse());
  Stretch whole{
      .weights = parameter.detach(), .gradient = gradient, .state = slot.state, .spare = {}};
  if (can_be_cut(whole)) return update_in_stretches(whole);
  for (torch::Tensor& spare : whole.spare) {
    spare = torch::empty_like(whole.weights);
  }
  rule_->update(whole);
}

void Optimizer::update_in_stretches(const Stretch& whole) {
  const std::int64_t elements = whole.weights.numel();
  make_spare(std::min(kStretchElements, elements), whole.weights.options());
  Stretch flat{
      .weights = whole.weights.view(-1),
      .gradient = whole.gradient.view(-1),
      .state = whole.state,
      .spare = spare_};
  for (torch::Tensor& tensor : flat.state) {
    tensor = tensor.view(-1);
  }
  for (std::int64_t begin = 0; begin < elements; begin += kStretchElements) {
    rule_->update(cut(flat, begin, std::min(kStretchElements, elements - begin)));
  }
}

Stretch Optimizer::cut(const Stretch& whole, std::int64_t begin, std::int64_t size) const {
  Stretch stretch{
      .weights = whole.weights.narrow(0, begin, size),
      .gradient = whole.gradient.narrow(0, begin, size),
      .state = {},
      .spare = {}};
  stretch.state.reserve(whole.state.size());
  for (const torch::Tensor& tensor : whole.state) {
    stretch.state.push_back(tensor.narrow(0, begin, size));
  }
  for (std::size_t i = 0; i < spare_.size(); ++i) {
    stretch.spare[i] = spare_[i].narrow(0, 0, size);
  }
  return stretch;
}

void Optimizer::make_spare(std::int64_t elements, const torch::TensorOptions& options) {
  const bool fits =
      spare_[0].defined() && spare_[0].numel() >= elements && spare_[0].dtype() == options.dtype();
  if (fits) return;
  for (torch::Tensor& spare : spare_) {
    spare = torch::empty({elements}, options);
  }
}

std::unique_ptr<Optimizer> make_optimizer(
    const OptimizerOptions& options, const Optimizer::Parameters& parameters) {
  return std::make_unique<Optimizer>(make_update_rule(options), options.learning_rate, parameters);
}

}  // namespace ddprun
