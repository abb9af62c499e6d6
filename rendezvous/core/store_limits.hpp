#pragma once

#include "base/time.hpp"

#include <cstddef>

namespace ddprun {

/// What one client, and all of them together, may cost a store. Inclusive maxima, never below those
/// of torch's libuv server, which valid jobs rely on. docs/store.md explains each. More than twelve
/// members, since there are as many limits.
struct StoreLimits {
  // Of one request; a breach closes the connection when the length is read, not after the body.
  std::size_t key_bytes_max = 8'192;
  std::size_t value_bytes_max = 8'388'608;  // SET, COMPARE_SET, QUEUE_PUSH, one APPEND
  std::size_t list_items_max = 131'072;     // keys of CHECK, WAIT, MULTI_GET; pairs of MULTI_SET
  std::size_t request_bytes_max = 256U << 20U;     // a whole request
  std::size_t reply_bytes_max = 256U << 20U;       // LIST_KEYS; other replies are smaller in memory
  std::size_t grown_value_bytes_max = 64U << 20U;  // a value that APPENDs have built

  // Of the whole store; the writer that would exceed one is closed, readers continue.
  std::size_t stored_bytes_max = 8ULL << 30U;  // keys, values and queue items
  std::size_t keys_max = 16'000'000;
  std::size_t queue_items_max = 16'000'000;
  std::size_t registrations_max = 64'000'000;  // names that somebody waits for
  std::size_t waited_bytes_max = 4ULL << 30U;  // what these take in memory
  // Of requests that have come in part, and of replies that were not taken yet: whose connection
  // grows beyond it is closed.
  std::size_t held_bytes_max = 2ULL << 30U;

  // Of a connection.
  std::size_t connections_max = 262'144;
  // That have not said what they are. More than all nodes of the largest job open at one moment.
  std::size_t strangers_max = 65'536;
  std::size_t http_sessions_max = 256;  // people and programs that look at the job, at one time
  std::size_t unsent_bytes_max = 16U << 20U;  // above it nothing more is read from the connection
  Duration handshake = std::chrono::seconds(10);    // from accept to VALIDATE
  Duration slow_reader = std::chrono::seconds(60);  // unsent replies without any progress

  bool operator==(const StoreLimits&) const = default;
};

}  // namespace ddprun
