#include "agent/core/step_reports.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include <string.h>

namespace ddprun {
namespace {

constexpr std::int64_t kStepMax = 1'000'000'000'000'000;  // as a message may have
constexpr std::int64_t kLongest = 1'000'000'000LL * 86'400 * 365;

}  // namespace

std::int64_t step_of(const contract::StepSlot& slot) {
  const std::int64_t step = slot.reported > 0 ? slot.reported - 1 : slot.steps;
  return std::clamp<std::int64_t>(step, 0, kStepMax);
}

std::vector<StepReport> step_reports(
    std::span<const contract::StepSlot> slots, std::int64_t now_ns) {
  std::vector<StepReport> reports;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const contract::StepSlot& slot = slots[i];
    const bool is_busy = slot.busy_until > now_ns;
    const std::int64_t at = std::clamp<std::int64_t>(slot.stepped_at, 0, now_ns);
    if (at == 0 && !is_busy) continue;
    StepReport& report = reports.emplace_back();
    report.local_rank = static_cast<int>(i);
    report.step = step_of(slot);
    report.step_time = Duration(std::clamp<std::int64_t>(slot.step_time, 0, kLongest));
    if (at != 0) report.age = Duration(std::min(now_ns - at, kLongest));
    if (is_busy) {
      const std::size_t size = ::strnlen(slot.busy_with, sizeof(slot.busy_with));
      report.busy_with = size == 0 ? "busy" : std::string(slot.busy_with, size);
    }
  }
  return reports;
}

}  // namespace ddprun
