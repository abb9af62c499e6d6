#pragma once

// One request of the c10d TCPStore protocol, parsed.

#include "rendezvous/core/link.hpp"
#include "rendezvous/core/value.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The opcodes, as torch 2.2 to 2.15 send them (upstream: QueryType in TCPStoreBackend.hpp).
enum class StoreOp : std::uint8_t {
  kValidate = 0x00,
  kSet = 0x01,
  kCompareSet = 0x02,
  kGet = 0x03,
  kAdd = 0x04,
  kCheck = 0x05,
  kWait = 0x06,
  kGetNumKeys = 0x07,
  kDeleteKey = 0x08,
  kAppend = 0x09,
  kMultiGet = 0x0A,
  kMultiSet = 0x0B,
  kCancelWait = 0x0C,
  kPing = 0x0D,
  kQueuePush = 0x0E,
  kQueuePop = 0x0F,
  kQueueLen = 0x10,
  kListKeys = 0x11,
  kBarrier = 0x12,
};
inline constexpr std::size_t kStoreOps = 0x13;

/// What VALIDATE carries.
inline constexpr std::uint32_t kStoreMagic = 0x3C85F7CE;

// The one-byte replies.
inline constexpr std::uint8_t kKeysExist = 0;
inline constexpr std::uint8_t kKeysMissing = 1;
inline constexpr std::uint8_t kStopWaiting = 0;
inline constexpr std::uint8_t kWaitCanceled = 1;

/// The key that counts the workers' stores; the only one without a leading slash.
inline constexpr std::string_view kInitKey = "init/";

/// A list of keys in one piece of memory, which the next request uses again.
class KeyList {
 public:
  void clear();
  /// Appends an empty key, which extend() then fills.
  void open();
  void extend(std::string_view part);

  /// Appends at most `items_max` keys from the front of `wire`, where each stands after its length
  /// in 8 bytes; stops before one that is not there whole, or longer than `key_bytes_max`.
  struct Taken {
    std::size_t items = 0;
    std::size_t bytes = 0;  // of `wire`
  };
  Taken take(std::string_view wire, std::size_t items_max, std::size_t key_bytes_max);

  std::size_t size() const { return places_.size(); }
  /// What they take in memory.
  std::size_t bytes() const { return bytes_.size() + places_.size() * sizeof(Place); }
  std::string_view operator[](std::size_t index) const {
    return {bytes_.data() + places_[index].begin, places_[index].size};
  }

 private:
  // Of one key in bytes_; below 4 GiB by request_bytes_max.
  struct Place {
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
  };

  std::string bytes_;
  std::vector<Place> places_;
};

/// The fields that `op` has; the others are left over from earlier requests.
struct StoreRequest {
  StoreOp op = StoreOp::kValidate;
  std::string key;            // or the name of a queue
  Value value;                // of COMPARE_SET: desired
  Value expected;             // COMPARE_SET
  std::int64_t number = 0;    // ADD: delta; BARRIER: world size
  std::uint32_t nonce = 0;    // PING
  KeyList keys;               // CHECK, WAIT, MULTI_GET, MULTI_SET
  std::vector<Value> values;  // MULTI_SET, one for each of `keys`
};

}  // namespace ddprun
