#include "trainer/imported_state.hpp"

#include "trainer/core/corrupt.hpp"
#include "trainer/named_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace ddprun {
namespace {

std::set<std::string> names_of(const NamedTensors& tensors) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    names.insert(name);
  }
  return names;
}

}  // namespace

Result<void> check_imported(const SnapshotState& state, const Model& model) {
  const std::set<std::string> ours = names_of(model_tensors(model));
  for (const TensorView& view : state.model) {
    if (ours.contains(view.name)) continue;
    return corrupt(fmt::format(
        "the model has no tensor '{}'; give --model, --classes and --image-size as in its "
        "training",
        view.name));
  }
  for (const auto& [name, tensor] : model_tensors(model)) {
    const auto found = std::ranges::find(state.model, name, &TensorView::name);
    if (found != state.model.end() && found->shape == tensor.sizes().vec()) continue;
    return corrupt(fmt::format(
        "tensor '{}' is missing or has another shape than the model's; give --model, --classes "
        "and --image-size as in its training",
        name));
  }
  if (state.optimizer.empty()) return {};
  std::vector<std::string> order;
  for (const auto& item : model.named_parameters()) {
    order.push_back(item.key());
  }
  if (order == state.parameters) return {};
  return corrupt(
      "its parameters have another order than the model's, so the optimizer's state would go to "
      "the wrong ones; save the model's own state_dict() in Python, or import the file with "
      "--weights-only");
}

Result<void> fill_imported(const SnapshotState& state, Optimizer& optimizer) {
  if (state.optimizer.empty()) return {};
  NamedTensors kept = optimizer.make_state(state.optimizer);
  const std::set<std::string> ours = names_of(kept);
  std::set<std::string> theirs;
  for (const TensorView& view : state.optimizer) {
    theirs.insert(view.name);
    if (ours.contains(view.name)) continue;
    return corrupt(fmt::format(
        "the optimizer has no state '{}' here; give --optimizer and --momentum as in its "
        "training",
        view.name));
  }
  std::erase_if(kept, [&theirs](const auto& one) { return !theirs.contains(one.first); });
  return fill(kept, state.optimizer);
}

}  // namespace ddprun
