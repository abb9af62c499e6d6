#include "trainer/core/checkpoint_plan.hpp"

#include "base/parse.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

PyValue real(double value) {
  return {.kind = value};
}

/// The part before ".<digits>.tmp"; none if `name` does not end in this way.
std::optional<std::string_view> without_suffix(std::string_view name) {
  constexpr std::string_view kSuffix = ".tmp";
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || !parse_int<std::uint64_t>(name.substr(dot + 1))) {
    return std::nullopt;
  }
  return name.substr(0, dot);
}

/// The first number in a text; 0 if there is none.
std::int64_t number_in(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin = text.find_first_of(kDigits);
  if (begin == std::string_view::npos) return 0;
  const std::size_t end = text.find_first_not_of(kDigits, begin);
  return parse_int<std::int64_t>(text.substr(begin, end - begin)).value_or(0);
}

}  // namespace

std::int64_t checkpoint_interval(CheckpointStyle style) {
  constexpr std::int64_t kOpenAccEpochs = 10;
  return style == CheckpointStyle::kOpenAccWeights ? kOpenAccEpochs : 1;
}

bool is_checkpoint_due(
    CheckpointStyle style, std::int64_t number, std::int64_t every, bool is_last) {
  const bool begins_with_first = style == CheckpointStyle::kOpenAcc ||
                                 style == CheckpointStyle::kOpenAccWeights ||
                                 style == CheckpointStyle::kSnapshot;
  return is_last || (begins_with_first ? number : number + 1) % every == 0;
}

bool has_first_checkpoint(CheckpointStyle style) {
  return style == CheckpointStyle::kMila;
}

bool is_of_each_rank(CheckpointStyle style) {
  return style == CheckpointStyle::kOpenAcc;
}

std::string best_file_name(CheckpointStyle style) {
  switch (style) {
    case CheckpointStyle::kMilaCifar:
      return "model_best.pth";
    case CheckpointStyle::kImagenet:
      return "model_best.pth.tar";
    default:
      return {};
  }
}

bool is_leftover_checkpoint(
    CheckpointStyle style,
    int rank,
    std::string_view name,
    const std::optional<std::string>& file_name) {
  const auto file = without_suffix(name);
  if (!file || file->empty()) return false;
  if (file_name) return *file == *file_name;
  if (*file == best_file_name(style)) return true;
  // Some styles count completed epochs, others begin with the state before the first epoch.
  const std::int64_t number = number_in(*file);
  return *file == checkpoint_file_name(style, number, rank) ||
         *file == checkpoint_file_name(style, number - 1, rank);
}

PyDict optimizer_settings(const OptimizerOptions& options, double learning_rate) {
  using enum OptimizerKind;
  PyDict settings;
  settings.add("lr", real(learning_rate));
  settings.add("weight_decay", real(options.weight_decay));
  const bool is_adam = options.kind == kAdam || options.kind == kAdamW;
  if (is_adam) {
    settings.add("betas", {.kind = PyTuple{{real(options.beta1), real(options.beta2)}}});
  }
  if (options.kind != kSgd) settings.add("eps", real(options.epsilon));
  if (options.kind == kSgd || options.kind == kRmsProp) {
    settings.add("momentum", real(options.momentum));
  }
  if (options.kind == kSgd) settings.add("nesterov", {.kind = options.is_nesterov});
  if (options.kind == kAdadelta) settings.add("rho", real(options.smoothing));
  if (options.kind == kRmsProp) {
    settings.add("alpha", real(options.smoothing));
    settings.add("centered", {.kind = options.is_centered});
  }
  if (options.kind == kAdagrad) settings.add("lr_decay", real(options.learning_rate_decay));
  return settings;
}

PyDict schedule_state(
    const ScheduleOptions& options, std::int64_t next_epoch, double learning_rate) {
  PyDict state;
  if (options.kind != ScheduleKind::kStep) return state;
  state.add("step_size", {.kind = options.step_epochs});
  state.add("gamma", real(options.gamma));
  state.add("base_lrs", {.kind = PyList{{real(options.base)}}});
  state.add("last_epoch", {.kind = next_epoch});
  state.add("_step_count", {.kind = next_epoch + 1});
  state.add("_is_initial", {.kind = false});
  state.add("_get_lr_called_within_step", {.kind = false});
  state.add("_last_lr", {.kind = PyList{{real(learning_rate)}}});
  return state;
}

}  // namespace ddprun
