#include "rendezvous/core/store_request.hpp"

namespace ddprun {
namespace {

// Memory that one huge request needed is not kept for the small ones that follow.
constexpr std::size_t kKeptBytesMax = 65'536;

}  // namespace

void KeyList::clear() {
  bytes_.clear();
  ends_.clear();
  if (bytes_.capacity() > kKeptBytesMax) bytes_.shrink_to_fit();
  if (ends_.capacity() > kKeptBytesMax / sizeof(ends_[0])) ends_.shrink_to_fit();
}

void KeyList::extend(std::string_view part) {
  bytes_.append(part);
  ends_.back() = static_cast<std::uint32_t>(bytes_.size());
}

void KeyList::push_back(std::string_view key) {
  open();
  extend(key);
}

std::string_view KeyList::operator[](std::size_t index) const {
  const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(bytes_).substr(begin, ends_[index] - begin);
}

}  // namespace ddprun
