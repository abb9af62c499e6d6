#pragma once

// Where an archive is extracted: under another name beside the destination, by one process of this
// node at a time.
//
// The directory that is filled is itself locked, by flock(2). So there is no lock file, and nothing
// to clean up after a process that was killed: the next process finds the lock free, and discards
// the content.

#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <filesystem>
#include <string_view>
#include <utility>

namespace ddprun {

class StagingPlace {
 public:
  /// Creates the parent directories of the destination. Fails with kInvalidArgument or kIo.
  static Result<StagingPlace> at(const std::filesystem::path& destination);

  /// Creates the temporary directory and waits for its lock. Yields false if another process
  /// finished or discarded it meanwhile, so that the caller must start again.
  Result<bool> hold();

  /// Removes what a killed process left. REQUIRES, as for all below: hold() yielded true.
  Result<void> empty();

  /// Writes the marker and renames the directory. Even after a crash of the machine, either both
  /// are there with all files, or neither. Fails with kIo.
  Result<void> finish(std::string_view marker);

  /// Removes the directory and releases the lock.
  void discard();

  /// Whether the destination is complete, with this marker. Fails with kInvalidArgument if
  /// something else is there, which ddpctl must not remove. May be called at any time.
  Result<bool> has(std::string_view marker) const;

  const std::filesystem::path& destination() const { return destination_; }
  int directory() const { return held_.get(); }

 private:
  explicit StagingPlace(std::filesystem::path destination);

  std::filesystem::path destination_;  // absolute
  std::filesystem::path aside_;
  Descriptor held_;
};

}  // namespace ddprun
