#pragma once

// An event as points of curves, for dashboards. There are two sets of names: that of KAUST's study,
// one point per epoch, and that of Mila's ImageNet example, with points within the epoch.

#include "trainer/core/line_style.hpp"
#include "trainer/core/report_event.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

enum class ScalarNames : std::uint8_t {
  kMila,   // "train/loss", "val/accuracy" …; accuracy from 0 to 1
  kKaust,  // "Loss/train", "Accuracy/val" …; accuracy in percent
};

/// kKaust for KAUST's lines, else kMila.
ScalarNames scalar_names_of(LineStyle style);

struct Scalar {
  std::string_view tag;
  double value = 0;
  bool operator==(const Scalar&) const = default;
};

/// The points of one event; empty for most events.
struct ScalarSet {
  std::int64_t step = 0;  // position on the axis: kKaust the epoch, kMila the updates
  std::vector<Scalar> scalars;
};

/// kKaust: six points per validated epoch. kMila: seven per step that is due (is_step_reported),
/// four per validated epoch, and, if known, also "train/grad_norm" and "val/accuracy_top5".
ScalarSet scalars_of(const ReportEvent& event, ScalarNames names, std::int64_t step_every);

}  // namespace ddprun
