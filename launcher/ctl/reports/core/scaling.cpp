#include "launcher/ctl/reports/core/scaling.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "slurm/core/excerpt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>

namespace ddprun {
namespace {

/// Reads a text from left to right; after the first mismatch, everything else fails too.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  Scanner& literal(std::string_view expected) {
    fits_ = fits_ && rest_.starts_with(expected);
    if (fits_) rest_.remove_prefix(expected.size());
    return *this;
  }

  /// A loss may be "nan".
  template <class Number>
  Scanner& number(Number& value) {
    const char* const end = rest_.data() + rest_.size();
    const auto [stop, error] = std::from_chars(rest_.data(), end, value);
    fits_ = fits_ && error == std::errc();
    if (fits_) rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
    return *this;
  }

  bool fits() const { return fits_; }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool fits_ = true;
};

struct EpochLine {
  int epoch = 0;
  EpochResult result;
};

/// "Epoch [3/30] LR: 0.100000 | Loss (train, val): 4.1, 4.2 | Accuracy (train, val): 9.1%, 8.2% |
/// Throughput: 704.9 img/s".
std::optional<EpochLine> parse_epoch_line(std::string_view line) {
  constexpr std::string_view kBegin = "Epoch [";
  const std::size_t begin = line.find(kBegin);
  if (begin == std::string_view::npos) return std::nullopt;
  EpochLine read;
  int epochs = 0;
  double rate = 0;
  EpochResult& result = read.result;
  Scanner scanner(line.substr(begin + kBegin.size()));
  scanner.number(read.epoch).literal("/").number(epochs).literal("] LR: ").number(rate);
  scanner.literal(" | Loss (train, val): ").number(result.train_loss).literal(", ");
  scanner.number(result.val_loss).literal(" | Accuracy (train, val): ");
  scanner.number(result.train_accuracy).literal("%, ").number(result.val_accuracy);
  scanner.literal("% | Throughput: ").number(result.images_per_s).literal(" img/s");
  return scanner.fits() ? std::optional(read) : std::nullopt;
}

/// "[Rank 0] World size: 4".
std::optional<int> parse_world_line(std::string_view line) {
  constexpr std::string_view kBegin = "World size: ";
  const std::size_t begin = line.find(kBegin);
  if (begin == std::string_view::npos) return std::nullopt;
  return parse_int<int>(trim(line.substr(begin + kBegin.size())));
}

/// Tables in Markdown, with cells that are not padded.
std::string row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string factor(double value, double base) {
  return base > 0 ? fmt::format("{:.2f}", value / base) : "-";
}

std::vector<std::string> cells_of(const ScalingRun& run, const ScalingRun& first) {
  const EpochResult& epoch = run.epoch;
  const auto& memory = run.memory;
  return {
      std::to_string(run.job.nodes),
      std::to_string(run.job.gpus()),
      fmt::format("{:.3f}", epoch.train_loss),
      fmt::format("{:.3f}", epoch.val_loss),
      fmt::format("{:.2f}", epoch.train_accuracy),
      fmt::format("{:.2f}", epoch.val_accuracy),
      fmt::format("{:.1f}", epoch.images_per_s),
      factor(epoch.images_per_s, first.epoch.images_per_s),
      memory ? fmt::format("{:.0f}", memory->peak) : "-",
      memory ? fmt::format("{:.2f}", memory->average) : "-",
      memory ? modes_text(*memory) : "-",
      memory && first.memory ? factor(memory->peak, first.memory->peak) : "-"};
}

std::string table(std::string_view title, int epoch, const std::vector<ScalingRun>& runs) {
  const std::vector<std::string> names = {
      "Nodes",
      "GPUs",
      "Train loss",
      "Val loss",
      "Train accuracy %",
      "Val accuracy %",
      "img/s",
      "Throughput factor",
      "GPU 0 peak MiB",
      "GPU 0 average MiB",
      "GPU 0 mode MiB",
      "Memory factor"};
  std::string text = fmt::format("\n{}, epoch {}\n\n", title, epoch);
  text += row(names) + row(std::vector<std::string>(names.size(), "---:"));
  for (const ScalingRun& run : runs) {
    text += row(cells_of(run, runs.front()));
  }
  return text;
}

}  // namespace

Result<ScalingJob> parse_log_name(std::string_view name) {
  ScalingJob job;
  Scanner usual(name);
  usual.literal("ddp_").number(job.gpus_per_node).literal("G").number(job.nodes).literal("N-");
  Scanner single(name);
  single.literal("ddp_G").number(job.gpus_per_node).literal("N").number(job.nodes).literal("-");
  const std::string_view rest = usual.fits() ? usual.rest() : single.rest();
  job.id = rest.substr(0, rest.find('.'));
  const bool is_read = usual.fits() || single.fits();
  constexpr int kMax = 65'536;
  const auto is_count = [](int number) { return number >= 1 && number <= kMax; };
  const bool is_number = parse_int<std::uint32_t>(job.id).has_value();
  if (is_read && is_number && is_count(job.gpus_per_node) && is_count(job.nodes)) return job;
  return invalid_argument(
      "'{}' is not a name such as ddp_2G4N-117.out (GPUs per node, nodes, job)", excerpt(name));
}

Result<EpochResult> find_epoch(std::string_view log, int epoch, const ScalingJob& job) {
  std::optional<EpochResult> found;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    const auto read = parse_epoch_line(line);
    if (read && read->epoch == epoch) found = read->result;
    const auto world = parse_world_line(line);
    if (world && *world != job.gpus()) {
      return format_error(
          Errc::kCorrupt, "its world size is {}, but its name says {} GPUs", *world, job.gpus());
    }
  }
  if (found) return *found;
  return format_error(Errc::kCorrupt, "it has no line for epoch {}", epoch);
}

std::string scaling_tables(std::vector<ScalingRun> runs, int epoch) {
  const auto order = [](const ScalingRun& run) {
    return std::tuple(run.job.nodes, run.job.gpus_per_node, run.job.id.size(), run.job.id);
  };
  std::ranges::sort(runs, {}, order);
  const auto several =
      std::ranges::find_if(runs, [](const ScalingRun& run) { return run.job.nodes > 1; });
  const std::vector<ScalingRun> on_one(runs.begin(), several);
  std::vector<ScalingRun> on_several(several, runs.end());
  if (!on_several.empty()) {
    const int gpus = on_several.front().job.gpus_per_node;
    const auto base = std::ranges::find_if(
        on_one, [gpus](const ScalingRun& run) { return run.job.gpus_per_node == gpus; });
    if (base != on_one.end()) on_several.insert(on_several.begin(), *base);
  }
  std::string text;
  if (!on_one.empty()) text += table("Scaling over the GPUs of one node", epoch, on_one);
  if (!on_several.empty()) text += table("Scaling over nodes", epoch, on_several);
  return text;
}

}  // namespace ddprun
