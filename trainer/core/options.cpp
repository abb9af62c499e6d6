#include "trainer/core/options.hpp"

#include <fmt/format.h>

#include <ranges>

namespace ddprun {

const char* name_of(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::kMnist:
      return "mnist";
    case DatasetKind::kFashionMnist:
      return "fashion-mnist";
  }
  return "";
}

std::map<std::string, std::string> arguments_of_job(const TrainOptions& options) {
  const auto limit = options.limit_train_samples;
  return {
      {"--dataset", name_of(options.dataset)},
      {"--model", name_of(options.model)},
      {"--first-epoch", std::to_string(options.first_epoch)},
      {"--seed", std::to_string(options.seed)},
      {"--sampler-seed", std::to_string(options.sampler_seed)},
      {"--limit-train-samples", limit ? std::to_string(*limit) : "all"}};
}

Result<void> check_same_job(
    const std::map<std::string, std::string>& saved, const TrainOptions& options) {
  // From the back: --sampler-seed follows --seed, so where both differ --seed is what was given.
  const auto ours = arguments_of_job(options);
  for (const auto& [flag, value] : std::views::reverse(ours)) {
    const auto found = saved.find(flag);
    if (found != saved.end() && found->second == value) continue;
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "saved with {} {}, but this run has {}; give the same flags, or another "
            "--snapshot-dir to begin anew",
            flag,
            found == saved.end() ? "unknown" : found->second,
            value));
  }
  return {};
}

}  // namespace ddprun
