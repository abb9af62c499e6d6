#include "rendezvous/core/rank_plan.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>

namespace ddprun {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Takes a run of digits off `text`, without leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end]))
    ++end;
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  while (number.size() > 1 && number.front() == '0')
    number.remove_prefix(1);
  return number;
}

bool comes_before(const Participant& a, const Participant& b) {
  constexpr int kLast = std::numeric_limits<int>::max();
  const int wish_a = a.node_rank.value_or(kLast);
  const int wish_b = b.node_rank.value_or(kLast);
  if (wish_a != wish_b) return wish_a < wish_b;
  if (a.host != b.host) return host_before(a.host, b.host);
  return std::tie(a.joined, a.node) < std::tie(b.joined, b.node);
}

}  // namespace

bool host_before(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view x = take_number(a);
      const std::string_view y = take_number(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.empty() && !b.empty();
}

std::vector<Participant> choose_participants(
    std::vector<Participant> participants, Incarnation leader, int least, int most) {
  std::ranges::sort(participants, [leader](const Participant& a, const Participant& b) {
    const auto class_of = [leader](const Participant& participant) {
      if (participant.is_unfit) return 3;
      if (participant.node == leader) return 0;
      return participant.previous >= 0 ? 1 : 2;
    };
    if (class_of(a) != class_of(b)) return class_of(a) < class_of(b);
    if (a.previous != b.previous) return a.previous < b.previous;
    return comes_before(a, b);
  });
  const auto fit =
      static_cast<int>(std::ranges::count(participants, false, &Participant::is_unfit));
  const int taken = std::clamp(fit, least, most);
  if (std::ssize(participants) > taken) participants.resize(static_cast<std::size_t>(taken));
  return participants;
}

std::vector<RankAssignment> plan_ranks(std::vector<Participant> participants, Incarnation leader) {
  std::ranges::sort(participants, comes_before);
  std::vector<const Participant*> places(participants.size(), nullptr);
  std::vector<const Participant*> others;
  DDPRUN_CHECK(!participants.empty());
  for (const Participant& participant : participants) {
    if (participant.node == leader) places.front() = &participant;
  }

  const auto try_place = [&places](const Participant& participant, int at) {
    const bool exists = at >= 0 && static_cast<std::size_t>(at) < places.size();
    if (!exists || places[static_cast<std::size_t>(at)] != nullptr) return false;
    places[static_cast<std::size_t>(at)] = &participant;
    return true;
  };
  std::vector<const Participant*> without;
  for (const Participant& participant : participants) {
    if (participant.node == leader) continue;
    if (!try_place(participant, participant.previous)) without.push_back(&participant);
  }
  for (const Participant* participant : without) {
    const bool had_none = participant->previous < 0;
    if (!had_none || !try_place(*participant, participant->node_rank.value_or(-1)))
      others.push_back(participant);
  }
  auto next = others.begin();
  for (const Participant*& place : places) {
    if (place == nullptr) place = *next++;
  }

  std::vector<RankAssignment> out;
  int first_rank = 0;
  for (const Participant* participant : places) {
    Place place;
    place.group_rank = static_cast<int>(out.size());
    place.group_size = static_cast<int>(places.size());
    place.first_rank = first_rank;
    first_rank += participant->workers;
    out.push_back({.node = participant->node, .place = place});
  }
  for (RankAssignment& assignment : out) {
    assignment.place.world_size = first_rank;
  }
  return out;
}

}  // namespace ddprun
