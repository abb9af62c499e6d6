#pragma once

#include "base/error.hpp"

#include <filesystem>
#include <string_view>
#include <utility>

namespace ddprun {

/// A new directory that is removed, with its content, by the destructor.
class ScratchDirectory {
 public:
  /// `parent`/`prefix`XXXXXX, accessible only to this user. Fails with kIo or kNotFound.
  static Result<ScratchDirectory> make(
      const std::filesystem::path& parent, std::string_view prefix);

  ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

}  // namespace ddprun
