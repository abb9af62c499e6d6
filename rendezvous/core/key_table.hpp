#pragma once

// The keys of the store and their values.
//
// A store with thousands of keys is larger than the nearest caches, so a look-up costs what its
// cache misses cost. The slots are one flat array with each key's hash in it: nearly always one
// slot and one entry are touched. A list of keys is looked up at once, so that the misses of its
// keys overlap. With boost::unordered_flat_map instead, a MULTI_GET of 128 keys took 7 % more CPU
// time at 64 clients, and 49 % more at 1,000 (16.4 and 24.4 µs; ddpbench store, five runs each).

#include "rendezvous/core/value.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace ddprun {

class KeyTable {
 public:
  /// How many keys find_all() takes.
  static constexpr std::size_t kAtOnceMax = 32;

  KeyTable();
  ~KeyTable();
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  /// The value of `key`, or null. What was found stays where it is until its key is removed.
  Value* find(std::string_view key);
  const Value* find(std::string_view key) const;

  /// As find() for each of `keys`. REQUIRES: as many in `found`, at most kAtOnceMax.
  void find_all(std::span<const std::string_view> keys, std::span<const Value*> found) const;

  bool contains(std::string_view key) const { return find(key) != nullptr; }

  /// Adds a key. REQUIRES: it is not in the table.
  Value& add(std::string_view key, Value value);

  /// REQUIRES: `key` is in the table.
  void remove(std::string_view key);

  std::size_t size() const { return size_; }

  /// Calls `visit` with each key, in no order.
  template <class Visit>
  void for_each_key(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.entry != nullptr) visit(key_of(*slot.entry));
    }
  }

 private:
  struct Entry;  // the value, and the bytes of the key after it
  struct Slot {
    std::size_t hash = 0;
    Entry* entry = nullptr;  // null: free
  };

  static std::string_view key_of(const Entry& entry);
  std::size_t home_of(std::size_t hash) const { return hash & (slots_.size() - 1); }
  std::size_t after(std::size_t index) const { return (index + 1) & (slots_.size() - 1); }
  std::size_t slot_of(std::size_t hash, std::string_view key) const;
  void grow();

  std::vector<Slot>
      slots_;  // a power of two; linear probing, no slot is free between home and slot
  std::size_t size_ = 0;
};

}  // namespace ddprun
