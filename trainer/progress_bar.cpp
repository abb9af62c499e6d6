#include "trainer/progress_bar.hpp"

#include "base/say.hpp"

#include <fmt/format.h>

#include <string>

#include <unistd.h>

namespace ddprun {

ProgressBar::ProgressBar(bool wanted) : visible_(wanted && ::isatty(STDERR_FILENO) == 1) {}

void ProgressBar::show(std::int64_t epoch, std::int64_t done, std::int64_t steps, double loss) {
  constexpr auto kBetween = std::chrono::milliseconds(100);
  constexpr std::int64_t kWidth = 30;
  if (!visible_) return;
  const TimePoint now = Clock::now();
  if (now < next_ && done < steps) return;
  next_ = now + kBetween;
  drawn_ = true;
  const auto filled = static_cast<std::size_t>(kWidth * done / steps);
  say(fmt::format(
      "\repoch {} [{}{}] {}/{} loss {:.4f}\x1b[K",
      epoch,
      std::string(filled, '#'),
      std::string(kWidth - filled, '.'),
      done,
      steps,
      loss));
}

void ProgressBar::clear() {
  if (!drawn_) return;
  drawn_ = false;
  say("\r\x1b[K");
}

}  // namespace ddprun
