#pragma once

// The text of a progress bar, one line without control characters.

#include <cstdint>
#include <string>

namespace ddprun {

enum class BarStyle : std::uint8_t {
  kPlain,    // "epoch 0 [###...] 5/10 loss 0.5000"
  kSamples,  // Mila's: "Train epoch 1/10:  50%|█████     | 640/1280 [00:01<00:01, …]"
};

/// The position in the epoch.
struct BarState {
  std::int64_t epoch = 0;   // its number
  std::int64_t count = 1;   // its position in the run, from 1
  std::int64_t epochs = 1;  // of the run
  std::int64_t steps_done = 0;
  std::int64_t steps = 0;  // of the epoch
  std::int64_t samples_done = 0;
  std::int64_t samples = 0;  // of the epoch, all ranks
  double seconds = 0;        // since the start of the epoch
  double loss = 0;
  double accuracy = 0;  // 0 to 1
};

/// kSamples looks like tqdm's bar, ten cells wide: description, percentage, samples, elapsed and
/// remaining time, rate, "loss=0.000, accuracy=0.00%". An epoch without steps is shown as done.
std::string bar_text(BarStyle style, const BarState& state);

}  // namespace ddprun
