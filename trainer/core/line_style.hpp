#pragma once

// The lines that a run prints, in the format of one of five public systems or in ours. Scripts that
// read the logs of those systems can read ddptrain's. docs/metrics.md lists each line.

#include "base/error.hpp"
#include "trainer/core/rank_log.hpp"
#include "trainer/core/report_event.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

enum class LineStyle : std::uint8_t {
  kPlain,         // ours: key=value
  kMilaImagenet,  // Mila's multi-node ImageNet example
  kMilaCifar,     // Mila's multi-GPU CIFAR-10 example
  kCrusoeMnist,   // Crusoe's basic example
  kCrusoeVit,     // Crusoe's vision transformer
  kKaust,         // KAUST's scaling study on TinyImageNet
  kOpenacc,       // the OpenACC bootcamp
};

/// The values of --log-style: "plain", "mila", "mila-imagenet", "mila-cifar", "crusoe",
/// "crusoe-mnist", "crusoe-vit", "kaust", "openacc".
std::vector<std::string> line_style_names();

/// The style called `name`. "mila" and "crusoe" have two forms each. The data set decides Mila's
/// ("cifar…"), since both examples train ResNets; the model decides Crusoe's ("vit…"), since only
/// one of them trains a transformer. Fails with kInvalidArgument for any other name.
Result<LineStyle> parse_line_style(
    std::string_view name, std::string_view dataset, std::string_view model);

/// Which rank prints, and the facts about the run that its lines contain.
struct LineContext {
  LineStyle style = LineStyle::kPlain;
  Verbosity verbosity = Verbosity::kWarning;
  int rank = 0;  // 0 <= rank < world
  int local_rank = 0;
  int world = 1;
  std::int64_t first_epoch = 0;
  std::int64_t epochs = 1;
  std::optional<std::int64_t> step_every = std::nullopt;  // between lines; none: the style's own
};

/// Whether a step has a line: the first of an epoch, each `every`th and the last (T28); 0: none.
bool is_step_reported(std::int64_t batch, std::int64_t batches, std::int64_t every);

/// The number of steps between two lines; 0: steps have no lines.
std::int64_t step_interval(const LineContext& context);

/// The lines of this rank for `event`, without line breaks; empty if it prints nothing. Most are
/// rank 0's; kMilaCifar and kOpenacc have lines of every rank, and of each node's first rank.
std::vector<std::string> lines_of(const ReportEvent& event, const LineContext& context);

}  // namespace ddprun
