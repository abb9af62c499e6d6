#include "rendezvous/core/store_replies.hpp"

#include "base/check.hpp"
#include "rendezvous/core/kept_memory.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace ddprun {
namespace {

// Of the sent front: worth moving the rest for.
constexpr std::size_t kMovedBytesMin = 65'536;

constexpr std::size_t kSmallBytesMax = 256;

// Copied: more is shared. One MULTI_GET may name the same value 131,072 times.
constexpr std::size_t kMuchBytes = 1U << 20U;

}  // namespace

void StoreReplies::put_string(std::string_view bytes) {
  // In one step: a MULTI_GET puts many small ones.
  std::array<char, kSmallBytesMax> both;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const auto length = static_cast<std::int64_t>(bytes.size());
  if (sizeof(length) + bytes.size() <= both.size()) {
    std::memcpy(both.data(), &length, sizeof(length));
    std::ranges::copy(bytes, both.begin() + sizeof(length));
    return put_raw(both.data(), sizeof(length) + bytes.size());
  }
  put_i64(length);
  put_raw(bytes.data(), bytes.size());
}

std::size_t StoreReplies::shared_bytes_min() const {
  return copied_.size() < kMuchBytes ? kSharedBytesMin : kSharedIfMuchBytesMin;
}

void StoreReplies::put_value(const Value& value) {
  const std::string_view bytes = value.view();
  if (bytes.size() < shared_bytes_min()) return put_string(bytes);
  put_i64(static_cast<std::int64_t>(bytes.size()));
  shared_.push_back(Shared{.at = copied_.size(), .value = value});
  unsent_ += bytes.size();
}

// Small ones, the common case, take room once for all.
void StoreReplies::put_values(std::span<const Value* const> values) {
  const Value empty;
  const std::size_t shared_min = shared_bytes_min();
  std::size_t total = 0;
  bool small = true;
  for (const Value* value : values) {
    const std::size_t size = value != nullptr ? value->size() : 0;
    total += sizeof(std::int64_t) + size;
    small = small && size < shared_min;
  }
  if (!small) {
    for (const Value* value : values) {
      put_value(value != nullptr ? *value : empty);
    }
    return;
  }
  const std::size_t begin = copied_.size();
  copied_.resize(begin + total);
  unsent_ += total;
  char* into = copied_.data() + begin;
  for (const Value* value : values) {
    const std::string_view bytes = value != nullptr ? value->view() : std::string_view();
    const auto length = static_cast<std::int64_t>(bytes.size());
    std::memcpy(into, &length, sizeof(length));
    if (!bytes.empty()) std::memcpy(into + sizeof(length), bytes.data(), bytes.size());
    into += sizeof(length) + bytes.size();
  }
}

std::size_t StoreReplies::gather(std::span<std::string_view> pieces) const {
  const std::string_view copied = copied_;
  std::size_t used = 0;
  std::size_t at = copied_sent_;
  std::size_t skip = shared_sent_;
  for (std::size_t next = first_shared_; used < pieces.size(); ++next) {
    const bool more = next < shared_.size();
    const std::size_t end = more ? shared_[next].at : copied.size();
    if (end > at) pieces[used++] = copied.substr(at, end - at);
    at = end;
    if (!more || used == pieces.size()) break;
    pieces[used++] = shared_[next].value.view().substr(skip);
    skip = 0;
  }
  return used;
}

void StoreReplies::consume(std::size_t bytes) {
  DDPRUN_CHECK(bytes <= unsent_);
  unsent_ -= bytes;
  while (bytes > 0) {
    const bool more = first_shared_ < shared_.size();
    const std::size_t end = more ? shared_[first_shared_].at : copied_.size();
    const std::size_t from_copied = std::min(bytes, end - copied_sent_);
    copied_sent_ += from_copied;
    bytes -= from_copied;
    if (bytes == 0 || !more) break;
    const std::size_t left = shared_[first_shared_].value.size() - shared_sent_;
    const std::size_t from_shared = std::min(bytes, left);
    shared_sent_ += from_shared;
    bytes -= from_shared;
    if (from_shared < left) break;
    shared_[first_shared_++].value = Value();
    shared_sent_ = 0;
  }
  forget_sent();
}

void StoreReplies::put_raw(const void* data, std::size_t size) {
  copied_.append(static_cast<const char*>(data), size);
  unsent_ += size;
}

void StoreReplies::forget_sent() {
  if (unsent_ == 0) {
    clear_kept(copied_);
    clear_kept(shared_);
    copied_sent_ = 0;
    first_shared_ = 0;
    return;
  }
  // Moves the rest only when the sent front is the larger part, so the cost stays linear.
  const bool worth_it = copied_sent_ > kMovedBytesMin && copied_sent_ > copied_.size() / 2;
  const bool many =
      first_shared_ > kMovedBytesMin / sizeof(Shared) && first_shared_ > shared_.size() / 2;
  if (!worth_it && !many) return;
  copied_.erase(0, copied_sent_);
  shared_.erase(shared_.begin(), shared_.begin() + static_cast<std::ptrdiff_t>(first_shared_));
  for (Shared& shared : shared_) {
    shared.at -= copied_sent_;
  }
  copied_sent_ = 0;
  first_shared_ = 0;
}

}  // namespace ddprun
