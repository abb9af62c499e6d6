#pragma once

// The least that heartbeats can cost: a bare epoll loop in a process of its own that answers so
// many bytes by so many, on as many connections and at the same rate.

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>

namespace ddprun {

struct EchoLoad {
  int connections = 1;
  Duration interval{};  // between two questions on one connection
  int slots = 1;        // in which the questions of one interval come
  Duration time{};
  std::size_t question_bytes = 1;
  std::size_t answer_bytes = 1;
};

/// CPU time that the loop took for `load`. Fails with kIo, kPeerLost or kTimedOut. REQUIRES: this
/// process has one thread.
Result<Duration> measure_echo(const EchoLoad& load);

}  // namespace ddprun
