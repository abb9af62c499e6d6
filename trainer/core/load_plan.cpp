#include "trainer/core/load_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace ddprun {
namespace {

constexpr std::string_view kDdpPrefix = "module.";
constexpr std::size_t kNamesShown = 4;

std::string_view stripped(std::string_view name) {
  if (name.starts_with(kDdpPrefix)) name.remove_prefix(kDdpPrefix.size());
  return name;
}

/// Types that libtorch converts into one another.
bool is_float(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

bool is_of(std::string_view layer, std::string_view name) {
  return name.size() > layer.size() && name.starts_with(layer) && name[layer.size()] == '.';
}

Error refused(std::string detail) {
  return make_error(Errc::kInvalidArgument, std::move(detail));
}

Error misfit(const TensorSpec& spec, const TensorView& view) {
  return refused(fmt::format(
      "tensor '{}' is {} [{}] in the file, but the model's is {} [{}]",
      spec.name,
      name_of(view.dtype),
      fmt::join(view.shape, ", "),
      name_of(spec.dtype),
      fmt::join(spec.shape, ", ")));
}

void append(std::string& text, const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const std::size_t shown = std::min(names.size(), kNamesShown);
  const std::span<const std::string> first(names.data(), shown);
  text += fmt::format("; {}: {}", what, fmt::join(first, ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
}

}  // namespace

std::string summary_of(const LoadReport& report, std::size_t tensors) {
  const std::size_t kept = report.missing.size() + report.reshaped.size();
  std::string text = kept == 0 ? fmt::format("all {} tensors", tensors)
                               : fmt::format("{} of {} tensors", tensors - kept, tensors);
  append(text, "not in the file", report.missing);
  append(text, "of another shape", report.reshaped);
  append(text, "not in the model", report.unexpected);
  return text;
}

Result<LoadPlan> plan_load(
    const std::vector<TensorSpec>& model,
    const std::vector<TensorView>& file,
    std::string_view head) {
  std::map<std::string_view, std::size_t> unused;
  for (std::size_t from = 0; from < file.size(); ++from) {
    const std::string_view name = stripped(file[from].name);
    if (!unused.emplace(name, from).second) {
      return refused(fmt::format("the file has two tensors '{}'", name));
    }
  }

  LoadPlan plan;
  for (std::size_t to = 0; to < model.size(); ++to) {
    const TensorSpec& spec = model[to];
    const auto found = unused.find(spec.name);
    if (found == unused.end()) {
      plan.report.missing.push_back(spec.name);
      continue;
    }
    const TensorView& view = file[found->second];
    const bool converts =
        view.dtype == spec.dtype || (is_float(view.dtype) && is_float(spec.dtype));
    if (!converts) return misfit(spec, view);
    if (view.shape == spec.shape) {
      plan.copies.push_back({.from = found->second, .to = to});
    } else if (is_of(head, spec.name)) {
      plan.report.reshaped.push_back(spec.name);
    } else {
      return misfit(spec, view);
    }
    unused.erase(found);
  }
  for (const auto& [name, from] : unused) {
    plan.report.unexpected.emplace_back(name);
  }
  if (plan.copies.empty()) {
    return refused(fmt::format(
        "none of the file's {} tensors belongs to the model; give the weights of this model",
        file.size()));
  }
  return plan;
}

}  // namespace ddprun
