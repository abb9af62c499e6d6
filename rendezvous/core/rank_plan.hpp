#pragma once

#include "rendezvous/core/messages.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// One node that is to get a place.
struct Seat {
  Incarnation node{};
  std::string host;
  std::optional<int> node_rank;  // the place it asks for
  int previous = -1;             // its group rank before; -1: it had none
  std::uint64_t joined = 0;      // order in which nodes came
  int workers = 1;
};

/// A node and what it gets.
struct Seated {
  Incarnation node{};
  Place place;
};

/// The `most` seats that take part: the leader, then whoever had a place, then the others in the
/// order of node rank, host and arrival. REQUIRES: most >= 1, and `leader` is among the seats.
std::vector<Seat> choose_seats(std::vector<Seat> seats, Incarnation leader, int most);

/// Places for all `seats`, in the order of their group ranks (R3). The leader is 0. Whoever had a
/// place keeps it where it still exists, else whoever asks for one gets it; the others fill what
/// is free in the order of node rank, host and arrival. REQUIRES: `leader` is among the seats.
std::vector<Seated> plan_ranks(std::vector<Seat> seats, Incarnation leader);

/// Whether host `a` comes before host `b`: runs of digits compare as numbers, "n2" before "n10".
bool host_before(std::string_view a, std::string_view b);

}  // namespace ddprun
