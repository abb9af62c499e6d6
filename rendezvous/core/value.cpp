#include "rendezvous/core/value.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace ddprun {

Value::Value(std::string_view bytes) {
  if (bytes.empty()) return;
  reserve(bytes.size());
  std::memcpy(block_->bytes(), bytes.data(), bytes.size());
  block_->size = static_cast<std::uint32_t>(bytes.size());
}

void Value::append(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t total = size() + bytes.size();
  if (block_ != nullptr && block_->owners > 1) *this = Value(view());
  if (block_ == nullptr || block_->capacity < total) reserve(std::max(total, 2 * size()));
  std::memcpy(block_->bytes() + block_->size, bytes.data(), bytes.size());
  block_->size = static_cast<std::uint32_t>(total);
}

// REQUIRES: nobody else owns the block. From malloc, because realloc moves the pages of a large
// value instead of copying them.
void Value::reserve(std::size_t capacity) {
  DDPRUN_CHECK(capacity <= std::numeric_limits<std::uint32_t>::max());
  const bool fresh = block_ == nullptr;
  void* const memory = std::realloc(block_.get(), sizeof(Block) + capacity);
  if (memory == nullptr) throw std::bad_alloc();
  static_cast<void>(block_.detach());  // realloc has freed or moved it
  block_.reset(static_cast<Block*>(memory), /*add_ref=*/false);
  if (fresh) *block_ = Block{.owners = 1, .size = 0, .capacity = 0};
  block_->capacity = static_cast<std::uint32_t>(capacity);
}

void ValueBuilder::start(std::size_t size) {
  value_ = Value();
  size_ = size;
  if (size > 0) value_.reserve(std::min(size, kFirstBytes));
}

void ValueBuilder::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> room = space();
    DDPRUN_CHECK(!room.empty());
    const std::size_t taken = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), taken);
    filled(taken);
    bytes.remove_prefix(taken);
  }
}

std::span<char> ValueBuilder::space() {
  if (missing() == 0) return {};
  Value::Block* block = value_.block_.get();
  if (block->size == block->capacity) {
    value_.reserve(std::min(size_, 2 * std::size_t{block->capacity}));
    block = value_.block_.get();
  }
  return {block->bytes() + block->size, std::size_t{block->capacity} - block->size};
}

void ValueBuilder::filled(std::size_t bytes) {
  DDPRUN_CHECK(bytes <= missing());
  value_.block_->size += static_cast<std::uint32_t>(bytes);
}

Value ValueBuilder::take() {
  DDPRUN_CHECK(missing() == 0);
  size_ = 0;
  return std::exchange(value_, Value());
}

}  // namespace ddprun
