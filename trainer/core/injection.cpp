#include "trainer/core/injection.hpp"

#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

namespace ddprun {
namespace {

constexpr std::array<std::pair<std::string_view, Fault>, 7> kFaults = {{
    {"kill", Fault::kKill},
    {"segv", Fault::kSegv},
    {"hang", Fault::kHang},
    {"slow", Fault::kSlow},
    {"nan", Fault::kNan},
    {"oom", Fault::kOom},
    {"diskfull", Fault::kDiskFull},
}};
constexpr std::int64_t kStepMax = 1'000'000'000'000;
constexpr std::int64_t kDelayMaxMs = 3'600'000;

Error bad_fault(std::string_view text, std::string_view why) {
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "'{}': {}; expected FAULT@STEP[:MS][,rank=N|all][,attempt=N|all], where FAULT is kill, "
          "segv, hang, slow, nan, oom or diskfull and slow has MS",
          text,
          why));
}

/// Cuts off and yields the part before the first `mark`, or all; removes the mark as well.
std::string_view cut(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  const std::string_view head = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return head;
}

/// A whole number within the limits; else none.
std::optional<std::int64_t> number_of(
    std::string_view text, std::int64_t least, std::int64_t most) {
  const auto number = parse_int<std::int64_t>(text);
  if (!number || *number < least || *number > most) return std::nullopt;
  return number;
}

/// Reads `N` or `all`; false if it is neither.
bool read_selector(std::string_view value, std::optional<std::int64_t>& selector) {
  selector.reset();
  if (value == "all") return true;
  const auto number = number_of(value, 0, std::numeric_limits<std::int32_t>::max());
  if (!number) return false;
  selector = number;
  return true;
}

}  // namespace

Result<Injection> parse_injection(std::string_view text) {
  Injection injection;
  std::string_view rest = text;
  std::string_view when = cut(rest, ',');
  const std::string_view name = cut(when, '@');
  const auto* const fault =
      std::ranges::find(kFaults, name, &std::pair<std::string_view, Fault>::first);
  if (fault == kFaults.end()) return bad_fault(text, fmt::format("unknown fault '{}'", name));
  injection.fault = fault->second;

  const std::string_view step = cut(when, ':');
  const auto number = number_of(step, 1, kStepMax);
  if (!number) return bad_fault(text, fmt::format("'{}' is not a step", step));
  injection.step = *number;
  if ((injection.fault == Fault::kSlow) == when.empty()) {
    return bad_fault(text, "slow, and only slow, has milliseconds after ':'");
  }
  if (!when.empty()) {
    const auto delay = number_of(when, 1, kDelayMaxMs);
    if (!delay) {
      return bad_fault(
          text, fmt::format("'{}' is not a number of milliseconds (at most an hour)", when));
    }
    injection.delay_ms = *delay;
  }

  while (!rest.empty()) {
    std::string_view value = cut(rest, ',');
    const std::string_view key = cut(value, '=');
    const bool is_rank = key == "rank";
    if (!is_rank && key != "attempt")
      return bad_fault(text, fmt::format("unknown selector '{}'", key));
    if (!read_selector(value, is_rank ? injection.rank : injection.attempt)) {
      return bad_fault(text, fmt::format("{}='{}' is neither a number nor 'all'", key, value));
    }
  }
  return injection;
}

bool is_for(const Injection& injection, std::int64_t rank, std::int64_t attempt) {
  return injection.rank.value_or(rank) == rank && injection.attempt.value_or(attempt) == attempt;
}

bool is_due(const Injection& injection, std::int64_t step) {
  const bool lasts = injection.fault == Fault::kSlow || injection.fault == Fault::kDiskFull;
  return lasts ? step >= injection.step : step == injection.step;
}

}  // namespace ddprun
