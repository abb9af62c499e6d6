#include "rendezvous/core/store_request.hpp"

#include "rendezvous/core/kept_memory.hpp"

#include <cstring>

namespace ddprun {

void KeyList::clear() {
  clear_kept(bytes_);
  clear_kept(places_);
}

void KeyList::open() {
  places_.push_back({.begin = static_cast<std::uint32_t>(bytes_.size()), .size = 0});
}

void KeyList::extend(std::string_view part) {
  bytes_.append(part);
  places_.back().size += static_cast<std::uint32_t>(part.size());
}

// The whole stretch is copied at once, lengths and all, which is far cheaper than key by key.
KeyList::Taken KeyList::take(
    std::string_view wire, std::size_t items_max, std::size_t key_bytes_max) {
  const std::size_t base = bytes_.size();
  Taken taken;
  std::uint64_t length = 0;
  while (taken.items < items_max && wire.size() - taken.bytes >= sizeof(length)) {
    std::memcpy(&length, wire.data() + taken.bytes, sizeof(length));
    const std::size_t begin = taken.bytes + sizeof(length);
    if (length > key_bytes_max || length > wire.size() - begin) break;
    places_.push_back(
        {.begin = static_cast<std::uint32_t>(base + begin),
         .size = static_cast<std::uint32_t>(length)});
    taken.bytes = begin + length;
    ++taken.items;
  }
  bytes_.append(wire.substr(0, taken.bytes));
  return taken;
}

}  // namespace ddprun
