#pragma once

#include "rendezvous/core/messages.hpp"

#include <cstdint>
#include <string>

namespace ddprun {

/// The only words on a life line: whose life it is. Silence follows.
struct LineHello {
  std::string job;
  Incarnation node{};
  std::int64_t generation = 0;  // of the leader that it is opened to

  bool operator==(const LineHello&) const = default;
};

}  // namespace ddprun
