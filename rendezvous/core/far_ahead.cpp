#include "rendezvous/core/far_ahead.hpp"

#include "rendezvous/core/message_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace ddprun {
namespace wire {
namespace {

/// Visits a message by its table of fields, so that no number of a new field is forgotten.
class Counting {
 public:
  explicit Counting(Counts& counts) : counts_(counts) {}

  template <class T, class... Limits>
  void operator()(std::string_view name, const T& value, const Limits&... /*limits*/) {
    look(name, value);
  }
  template <class T, class... Limits>
  void nullable(std::string_view name, const T& value, const Limits&... /*limits*/) {
    look(name, value);
  }
  void first(std::string_view /*name*/, const auto& /*value*/, Names /*names*/) {}
  void require(bool /*claim*/, std::string_view /*why*/) {}

 private:
  template <class T>
  void look(std::string_view name, const std::optional<T>& value) {
    if (value) look(name, *value);
  }
  template <class T>
  void look(std::string_view name, const std::vector<T>& list) {
    for (const T& item : list) {
      look(name, item);
    }
  }
  template <class T>
  void look(std::string_view name, const T& value) {
    if constexpr (std::is_same_v<T, RoundId>) {
      raise(counts_.term, value.term);
      raise(counts_.round, value.number);
    } else if constexpr (std::is_integral_v<T>) {
      if (name == "term") raise(counts_.term, value);
      if (name == "attempt" || name == "restarts_used") raise(counts_.restarts, value);
    } else if constexpr (requires { fields(*this, value); }) {
      fields(*this, value);
    }
  }

  static void raise(std::int64_t& count, std::int64_t value) { count = std::max(count, value); }

  Counts& counts_;
};

}  // namespace
}  // namespace wire

namespace {

std::string objection(
    std::string_view name, std::int64_t theirs, std::int64_t ours, std::int64_t max) {
  if (theirs <= max) return {};
  return fmt::format("{} {} is too far ahead of {}, limit {}", name, theirs, ours, max);
}

Counts counts_in(const VoterState& state) {
  Counts counts;
  wire::Counting visit(counts);
  wire::fields(visit, state);
  return counts;
}

}  // namespace

Counts counts_in(const Message& message) {
  Counts counts;
  wire::Counting visit(counts);
  wire::fields(visit, message);
  return counts;
}

std::string why_far_ahead(const Message& message, const VoterState& known) {
  // Most messages, which have none of these.
  if (std::holds_alternative<Heartbeat>(message) || std::holds_alternative<Confirm>(message)) {
    return {};
  }
  const Counts theirs = counts_in(message);
  const Counts ours = counts_in(known);
  Counts max = kNewcomerMax;
  if (known.instance.exists()) {
    max = {
        .term = ours.term + kAheadMax,
        .round = ours.round + kAheadMax,
        .restarts = ours.restarts + kAheadMax};
  }
  std::string why = objection("term", theirs.term, ours.term, max.term);
  if (why.empty()) why = objection("round", theirs.round, ours.round, max.round);
  if (why.empty()) why = objection("restart", theirs.restarts, ours.restarts, max.restarts);
  return why;
}

}  // namespace ddprun
