#include "trainer/progress_bar.hpp"

#include "base/standard_streams.hpp"

#include <fmt/format.h>

#include <unistd.h>

namespace ddprun {

ProgressBar::ProgressBar(bool wanted, BarStyle style)
    : visible_(wanted && ::isatty(STDERR_FILENO) == 1), style_(style) {}

void ProgressBar::show(const BarState& state) {
  constexpr auto kBetween = std::chrono::milliseconds(100);
  if (!visible_) return;
  const TimePoint now = Clock::now();
  if (now < next_ && state.steps_done < state.steps) return;
  next_ = now + kBetween;
  drawn_ = true;
  write_stderr(fmt::format("\r{}\x1b[K", bar_text(style_, state)));  // no line, so no report
}

void ProgressBar::clear() {
  if (!drawn_) return;
  drawn_ = false;
  write_stderr("\r\x1b[K");
}

}  // namespace ddprun
