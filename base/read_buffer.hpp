#pragma once

// Room to read into.

#include <cstddef>
#include <memory>
#include <span>

namespace ddprun {

/// `size` uninitialised bytes: a page of them costs nothing until something was read into it,
/// neither at start nor when the process ends.
class ReadBuffer {
 public:
  explicit ReadBuffer(std::size_t size)
      : bytes_(std::make_unique_for_overwrite<char[]>(size)), size_(size) {}
  ReadBuffer(const ReadBuffer&) = delete;  // nor moved
  ReadBuffer& operator=(const ReadBuffer&) = delete;
  ~ReadBuffer() = default;

  std::span<char> bytes() { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

}  // namespace ddprun
