#pragma once

// The bytes that one connection is still to be sent, in order. Small replies are copied into one
// stretch of memory; large values are shared with the store and only pointed at.

#include "rendezvous/core/value.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class StoreReplies {
 public:
  /// From this size on a value is shared instead of copied; if much is copied already, from the
  /// second one on.
  static constexpr std::size_t kSharedBytesMin = 4096;
  static constexpr std::size_t kSharedIfMuchBytesMin = 256;

  void put_u8(std::uint8_t value) { put_raw(&value, sizeof(value)); }
  void put_u32(std::uint32_t value) { put_raw(&value, sizeof(value)); }
  void put_i64(std::int64_t value) { put_raw(&value, sizeof(value)); }
  /// Length and bytes.
  void put_string(std::string_view bytes);
  void put_value(const Value& value);
  /// As put_value() for each; null reads as empty.
  void put_values(std::span<const Value* const> values);

  /// Fills `pieces` with what comes next; returns how many it used.
  std::size_t gather(std::span<std::string_view> pieces) const;

  /// Drops `bytes` from the front: they have been sent. REQUIRES: bytes <= unsent().
  void consume(std::size_t bytes);

  std::size_t unsent() const { return unsent_; }

  /// What this takes in memory: without the bytes of shared values.
  std::size_t held_bytes() const { return copied_.size() + shared_.size() * sizeof(Shared); }

 private:
  // A shared value, which comes after the first `at` bytes of copied_.
  struct Shared {
    std::size_t at = 0;
    Value value;
  };

  std::size_t shared_bytes_min() const;
  void put_raw(const void* data, std::size_t size);
  void forget_sent();

  std::string copied_;
  std::size_t copied_sent_ = 0;  // <= copied_.size()
  std::vector<Shared> shared_;
  std::size_t first_shared_ = 0;  // those before it have been sent
  std::size_t shared_sent_ = 0;   // bytes of shared_[first_shared_] that have been sent
  std::size_t unsent_ = 0;
};

}  // namespace ddprun
