#include "rendezvous/core/key_table.hpp"

#include "base/check.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kFirstSlots = 16;

/// Multiplication carries every bit upwards, and the shift brings it down again.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9E37'79B9'7F4A'7C15U;  // 2^64 by the golden ratio, as Fibonacci hashing
  return hash ^ (hash >> 32U);
}

/// Eight bytes at a time, the last eight of a long key twice where they overlap: keys are short,
/// and std::hash is a call for each. A client that may write to a store may harm it anyhow, so it
/// needs no secret.
std::size_t hash_of(std::string_view key) {
  std::uint64_t word = 0;
  std::uint64_t hash = mix(0, key.size());
  if (key.size() < sizeof(word)) {
    std::memcpy(&word, key.data(), key.size());
    return mix(mix(hash, word), 0);
  }
  for (std::size_t at = 0; at + sizeof(word) < key.size(); at += sizeof(word)) {
    std::memcpy(&word, key.data() + at, sizeof(word));
    hash = mix(hash, word);
  }
  std::memcpy(&word, key.data() + key.size() - sizeof(word), sizeof(word));
  return mix(mix(hash, word), 0);
}

}  // namespace

struct KeyTable::Entry {
  Value value;
  std::uint32_t key_size = 0;

  char* key() { return reinterpret_cast<char*>(this + 1); }
  const char* key() const { return reinterpret_cast<const char*>(this + 1); }

  static Entry* make(std::string_view key, Value value) {
    void* const memory = std::malloc(sizeof(Entry) + key.size());
    if (memory == nullptr) throw std::bad_alloc();
    auto* const entry = new (memory)
        Entry{.value = std::move(value), .key_size = static_cast<std::uint32_t>(key.size())};
    std::memcpy(entry->key(), key.data(), key.size());
    return entry;
  }

  static void destroy(Entry* entry) {
    entry->~Entry();
    std::free(entry);
  }
};

KeyTable::KeyTable() : slots_(kFirstSlots) {}

KeyTable::~KeyTable() {
  for (const Slot& slot : slots_) {
    if (slot.entry != nullptr) Entry::destroy(slot.entry);
  }
}

std::string_view KeyTable::key_of(const Entry& entry) {
  return {entry.key(), entry.key_size};
}

// Where the key is, or the free slot where it would be.
std::size_t KeyTable::slot_of(std::size_t hash, std::string_view key) const {
  std::size_t at = home_of(hash);
  while (slots_[at].entry != nullptr) {
    if (slots_[at].hash == hash && key_of(*slots_[at].entry) == key) break;
    at = after(at);
  }
  return at;
}

Value* KeyTable::find(std::string_view key) {
  Entry* const entry = slots_[slot_of(hash_of(key), key)].entry;
  return entry == nullptr ? nullptr : &entry->value;
}

const Value* KeyTable::find(std::string_view key) const {
  const Entry* const entry = slots_[slot_of(hash_of(key), key)].entry;
  return entry == nullptr ? nullptr : &entry->value;
}

void KeyTable::find_all(
    std::span<const std::string_view> keys, std::span<const Value*> found) const {
  DDPRUN_CHECK(keys.size() <= kAtOnceMax && found.size() == keys.size());
  std::array<std::size_t, kAtOnceMax> hashes;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t i = 0; i < keys.size(); ++i) {
    hashes[i] = hash_of(keys[i]);
    __builtin_prefetch(&slots_[home_of(hashes[i])]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    // Nearly always the right one; where it is not, only time is lost.
    __builtin_prefetch(slots_[home_of(hashes[i])].entry);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Entry* const entry = slots_[slot_of(hashes[i], keys[i])].entry;
    found[i] = entry == nullptr ? nullptr : &entry->value;
    if (entry != nullptr) entry->value.prefetch();
  }
}

Value& KeyTable::add(std::string_view key, Value value) {
  if (4 * (size_ + 1) > 3 * slots_.size()) grow();
  const std::size_t hash = hash_of(key);
  Slot& slot = slots_[slot_of(hash, key)];
  DDPRUN_CHECK(slot.entry == nullptr);
  slot = Slot{.hash = hash, .entry = Entry::make(key, std::move(value))};
  ++size_;
  return slot.entry->value;
}

void KeyTable::remove(std::string_view key) {
  std::size_t hole = slot_of(hash_of(key), key);
  DDPRUN_CHECK(slots_[hole].entry != nullptr);
  Entry::destroy(slots_[hole].entry);
  --size_;
  // Those after the hole move up, unless that would put them before their home.
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = after(hole); slots_[at].entry != nullptr; at = after(at)) {
    const std::size_t from_home = (at - home_of(slots_[at].hash)) & mask;
    const std::size_t from_hole = (at - hole) & mask;
    if (from_home < from_hole) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = Slot{};
}

void KeyTable::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  for (const Slot& slot : old) {
    if (slot.entry == nullptr) continue;
    std::size_t at = home_of(slot.hash);
    while (slots_[at].entry != nullptr) {
      at = after(at);
    }
    slots_[at] = slot;
  }
}

}  // namespace ddprun
