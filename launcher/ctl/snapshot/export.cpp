#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/parse.hpp"
#include "launcher/ctl/snapshot/place.hpp"
#include "launcher/ctl/snapshot/verbs.hpp"
#include "trainer/core/python_checkpoint.hpp"
#include "trainer/weights_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

struct Setting {
  const char* flag;  // of ddptrain
  const char* name;  // in Python
};
constexpr std::array<Setting, 3> kSettings = {{
    {.flag = "--learning-rate", .name = "lr"},
    {.flag = "--momentum", .name = "momentum"},
    {.flag = "--weight-decay", .name = "weight_decay"},
}};

/// The parameter group of Python's optimizer, from the saved arguments. Values that they do not
/// contain are torch's defaults, and a message says so.
Result<PyDict> group_of(const SnapshotState& state) {
  const auto& arguments = state.arguments;
  const auto chosen = arguments.find("--optimizer");
  const std::string kind =
      chosen == arguments.end() ? std::string(optimizer_kind_of(state.optimizer)) : chosen->second;
  const auto defaults = optimizer_group(kind, {});
  if (!defaults) return defaults.error();
  PyDict settings;
  std::vector<std::string> unknown;
  for (const Setting& setting : kSettings) {
    if (defaults->find(setting.name) == nullptr) continue;
    const auto found = arguments.find(setting.flag);
    const auto value = found == arguments.end() ? std::nullopt : parse_double(found->second);
    if (value) {
      settings.add(setting.name, {.kind = *value});
    } else {
      unknown.emplace_back(setting.name);
    }
  }
  if (!unknown.empty()) {
    report(
        "the snapshot has no value for {} of {}; the file has torch's defaults",
        fmt::join(unknown, ", "),
        kind);
  }
  return optimizer_group(kind, settings);
}

/// The tensors in the order of Python's model, as far as the snapshot has it: parameters, then
/// buffers. A reader of the file may number the optimizer's state by it.
std::vector<TensorView> in_order(const SnapshotState& state) {
  std::vector<TensorView> tensors = state.model;
  const auto place = [&state](const TensorView& tensor) {
    return std::ranges::find(state.parameters, tensor.name) - state.parameters.begin();
  };
  std::ranges::stable_sort(tensors, {}, place);
  return tensors;
}

std::vector<TensorView> renamed(std::vector<TensorView> tensors, std::string_view prefix) {
  for (TensorView& tensor : tensors) {
    tensor.name.insert(0, prefix);
  }
  return tensors;
}

}  // namespace

Result<int> run_snapshot(const ExportSnapshot& options) {
  const auto path = options.best ? best_snapshot_in(options.path) : snapshot_at(options.path);
  if (!path) return path.error();
  const auto loaded = load_snapshot(*path);
  if (!loaded) return loaded.error();
  SnapshotState state = (*loaded)->state();
  state.model = in_order(state);

  const auto write = [&]() -> Result<void> {
    auto weights = renamed(state.model, options.prefix);
    if (options.to.ends_with(".safetensors")) {
      return write_safetensors_file(options.to, std::move(weights), {{"format", "pt"}});
    }
    if (options.weights_only) return write_torch_file(options.to, {.kind = to_dict(weights)});
    auto group = group_of(state);
    if (!group) return group.error();
    CheckpointFacts facts;
    facts.group = *std::move(group);
    const auto value = checkpoint_value(CheckpointStyle::kDdprun, state, facts);
    if (!value) return with_context(path->string() + " (try --weights-only)", value.error());
    return write_torch_file(options.to, *value);
  };
  const auto written = write();
  if (!written) return written.error();
  return kExitOk;
}

}  // namespace ddprun
