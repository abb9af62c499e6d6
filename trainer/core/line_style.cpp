#include "trainer/core/line_style.hpp"

#include "trainer/core/line_writers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun {
namespace {

constexpr std::int64_t kMilaInterval = 20;  // its --logging_interval, and ours under -v
constexpr std::int64_t kCrusoeMnistInterval = 100;
constexpr std::int64_t kCrusoeVitInterval = 10;

struct Name {
  std::string_view name;
  LineStyle style;
};
constexpr std::array<Name, 7> kNames = {{
    {.name = "plain", .style = LineStyle::kPlain},
    {.name = "mila-imagenet", .style = LineStyle::kMilaImagenet},
    {.name = "mila-cifar", .style = LineStyle::kMilaCifar},
    {.name = "crusoe-mnist", .style = LineStyle::kCrusoeMnist},
    {.name = "crusoe-vit", .style = LineStyle::kCrusoeVit},
    {.name = "kaust", .style = LineStyle::kKaust},
    {.name = "openacc", .style = LineStyle::kOpenacc},
}};
constexpr std::string_view kMila = "mila";
constexpr std::string_view kCrusoe = "crusoe";

/// The lines of the style; those of steps only if steps have lines.
Lines styled(const ReportEvent& event, const LineContext& context) {
  switch (context.style) {
    case LineStyle::kPlain:
      return std::visit(PlainLines{context}, event);
    case LineStyle::kMilaImagenet:
      return std::visit(MilaImagenetLines{context}, event);
    case LineStyle::kMilaCifar:
      return std::visit(MilaCifarLines{context}, event);
    case LineStyle::kCrusoeMnist:
      return std::visit(CrusoeMnistLines{context}, event);
    case LineStyle::kCrusoeVit:
      return std::visit(CrusoeVitLines{context}, event);
    case LineStyle::kKaust:
      return std::visit(KaustLines{context}, event);
    case LineStyle::kOpenacc:
      return std::visit(OpenaccLines{context}, event);
  }
  return {};
}

}  // namespace

std::vector<std::string> line_style_names() {
  std::vector<std::string> names{std::string(kMila), std::string(kCrusoe)};
  for (const Name& each : kNames) {
    names.emplace_back(each.name);
  }
  std::ranges::sort(names);
  return names;
}

Result<LineStyle> parse_line_style(
    std::string_view name, std::string_view dataset, std::string_view model) {
  if (name == kMila) {
    return dataset.starts_with("cifar") ? LineStyle::kMilaCifar : LineStyle::kMilaImagenet;
  }
  if (name == kCrusoe) {
    return model.find("vit") != std::string_view::npos ? LineStyle::kCrusoeVit
                                                       : LineStyle::kCrusoeMnist;
  }
  const auto* const found = std::ranges::find(kNames, name, &Name::name);
  if (found != kNames.end()) return found->style;
  return make_error(
      Errc::kInvalidArgument,
      fmt::format("log style '{}': not one of {}", name, fmt::join(line_style_names(), ", ")));
}

bool is_step_reported(std::int64_t batch, std::int64_t batches, std::int64_t every) {
  if (every <= 0) return false;
  return batch == 1 || batch % every == 0 || batch == batches;
}

std::int64_t step_interval(const LineContext& context) {
  if (context.step_every) return *context.step_every;
  if (context.style == LineStyle::kCrusoeMnist) return kCrusoeMnistInterval;
  if (context.style == LineStyle::kCrusoeVit) return kCrusoeVitInterval;
  return context.verbosity >= Verbosity::kInfo ? kMilaInterval : 0;
}

std::vector<std::string> lines_of(const ReportEvent& event, const LineContext& context) {
  // No other style has lines for a test without training.
  const auto* const ended = std::get_if<RunEnded>(&event);
  if (ended != nullptr && ended->is_evaluation) return PlainLines{context}(*ended);
  const auto* const step = std::get_if<StepDone>(&event);
  if (step == nullptr) return styled(event, context);
  if (!is_step_reported(step->batch, step->batches, step_interval(context))) return {};
  Lines lines;
  if (context.rank == 0) {
    lines = styled(event, context);
    if (context.verbosity >= Verbosity::kDebug) lines.push_back(phase_line(*step));
  }
  if (context.verbosity >= Verbosity::kEveryRank) lines.push_back(rank_line(*step, context.rank));
  return lines;
}

}  // namespace ddprun
