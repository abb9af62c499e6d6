#pragma once

#include "rendezvous/core/messages.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// One node that is to get a place.
struct Participant {
  Incarnation node{};
  std::string host;
  std::optional<int> node_rank;  // the place that it wants
  int previous = -1;             // its group rank before; -1: it had none
  std::uint64_t joined = 0;      // order in which nodes came
  int workers = 1;
  bool is_unfit = false;  // it runs workers only where the others do not suffice
};

/// A node and what it gets.
struct RankAssignment {
  Incarnation node{};
  Place place;
};

/// Those that get a slot, at most `most`: the leader, then nodes that had a place, then the
/// others in the order of node rank, host and arrival. Those that are unfit, the leader too, come
/// last, and take part only if there are fewer than `least` others. REQUIRES: 1 <= least <=
/// most, and there are `least` participants or more.
std::vector<Participant> choose_participants(
    std::vector<Participant> participants, Incarnation leader, int least, int most);

/// Places for all `participants`, in the order of their group ranks (R3). The leader is 0, if it is
/// among them. A node that had a place keeps it if it still exists; else a node that wants one gets
/// it; the others fill what is free in the order of node rank, host and arrival. REQUIRES: there is
/// one.
std::vector<RankAssignment> plan_ranks(std::vector<Participant> participants, Incarnation leader);

/// Whether host `a` comes before host `b`: runs of digits compare as numbers, "n2" before "n10".
bool host_before(std::string_view a, std::string_view b);

}  // namespace ddprun
