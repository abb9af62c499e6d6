#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

namespace ddprun {

/// Immutable bytes with any number of owners: the store, and the unsent replies that show them, so
/// that N readers of one value do not cost N copies.
///
/// The owners are counted without atomics: all copies of one Value live on one thread.
class Value {
 public:
  Value() = default;
  explicit Value(std::string_view bytes);

  /// Adds `bytes` at the end, for this owner alone. In place where nobody else owns the bytes, with
  /// room to spare, so that many small appends cost linear time.
  void append(std::string_view bytes);

  std::string_view view() const {
    if (block_ == nullptr) return {};
    return {block_->bytes(), block_->size};
  }
  std::size_t size() const { return view().size(); }

  /// Whether another owner shows the same bytes.
  bool is_shared() const { return block_ != nullptr && block_->owners > 1; }

  /// Begins to bring the bytes into the cache: they are looked at soon.
  void prefetch() const { __builtin_prefetch(block_.get()); }

 private:
  friend class ValueBuilder;
  // The bytes follow it in memory.
  struct Block {
    std::uint32_t owners;
    std::uint32_t size;
    std::uint32_t capacity;

    char* bytes() { return reinterpret_cast<char*>(this + 1); }

    friend void intrusive_ptr_add_ref(Block* block) { ++block->owners; }
    friend void intrusive_ptr_release(Block* block) {
      if (--block->owners == 0) std::free(block);
    }
  };

  void reserve(std::size_t capacity);

  boost::intrusive_ptr<Block> block_;  // null: empty
};

/// Makes a Value of a known size out of pieces. Memory grows with what has arrived, so that a
/// length field alone cannot make us allocate more than kFirstBytes.
class ValueBuilder {
 public:
  static constexpr std::size_t kFirstBytes = 65'536;

  /// Begins a value of `size` bytes.
  void start(std::size_t size);

  /// How many bytes are still to come.
  std::size_t missing() const { return size_ - value_.size(); }

  /// REQUIRES: bytes.size() <= missing().
  void append(std::string_view bytes);

  /// Where the next bytes may be written straight away; empty only if none are missing.
  std::span<char> space();

  /// Counts `bytes` that were written to space().
  void filled(std::size_t bytes);

  /// REQUIRES: missing() == 0.
  Value take();

 private:
  Value value_;
  std::size_t size_ = 0;
};

}  // namespace ddprun
