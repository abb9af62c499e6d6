#pragma once

// Hostile clients of one store, as bytes: shared by the libFuzzer target and by the test that
// sends a million frames.

#include "base/check.hpp"
#include "tests/rendezvous/store_world.hpp"

#include <cstddef>
#include <string_view>

namespace ddprun::testing {

/// Small, so that inputs of a few bytes reach every limit.
inline constexpr StoreLimits kFuzzLimits{
    .key_bytes_max = 64,
    .value_bytes_max = 256,
    .list_items_max = 32,
    .request_bytes_max = 2'048,
    .grown_value_bytes_max = 512,
    .stored_bytes_max = 16'384,
    .keys_max = 64,
    .queue_items_max = 32,
    .registrations_max = 128};

/// A store with three hostile clients, and one that must not be affected.
class HostileWorld {
 public:
  HostileWorld() { world_.say(kBystander, set("/bystander", "unharmed")); }

  /// Lets one client send `bytes`; it reconnects if it was closed.
  void hear(int client, std::string_view bytes) {
    const int who = client % kHostile;
    if (world_.known(who) && world_.closed(who)) world_.forget(who);
    world_.say(who, bytes);
    for (int each = 0; each < kHostile; ++each) {
      if (world_.known(each)) world_.hear(each);
    }
    frames_ += 1;
    check();
  }

  void leave(int client) {
    if (world_.known(client % kHostile)) world_.leave(client % kHostile);
  }

 private:
  static constexpr int kHostile = 3;
  static constexpr int kBystander = 7;

  void check() {
    const Store& store = world_.store();
    DDPRUN_CHECK(store.stored_bytes() <= kFuzzLimits.stored_bytes_max);
    DDPRUN_CHECK(store.keys() <= kFuzzLimits.keys_max);
    DDPRUN_CHECK(store.queue_items() <= kFuzzLimits.queue_items_max);
    DDPRUN_CHECK(store.registrations() <= kFuzzLimits.registrations_max);
    DDPRUN_CHECK(world_.ask(kBystander, ping(frames_)) == u32(frames_));
    DDPRUN_CHECK(!world_.closed(kBystander));
  }

  StoreWorld world_{kFuzzLimits};
  std::uint32_t frames_ = 0;
};

/// Reads `input` as: client, length, that many bytes, and so on; an odd high bit of the client
/// closes its connection first.
inline void run_hostile(std::string_view input) {
  HostileWorld world;
  while (input.size() >= 2) {
    const auto client = static_cast<unsigned char>(input[0]);
    const auto length = static_cast<unsigned char>(input[1]);
    input.remove_prefix(2);
    if (client >= 0x80) world.leave(client);
    const std::string_view bytes = input.substr(0, length);
    input.remove_prefix(bytes.size());
    world.hear(client, bytes);
  }
}

}  // namespace ddprun::testing
