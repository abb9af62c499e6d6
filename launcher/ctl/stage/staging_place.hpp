#pragma once

// Where an archive is extracted to: under another name beside the destination, and one process of
// this node at a time.
//
// The directory in which it is made is itself what is locked, by flock(2), so no lock file is left
// and nothing has to be cleaned up after a process that was killed: the next one finds the lock
// free, and what is in the directory worthless.

#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <filesystem>
#include <string_view>
#include <utility>

namespace ddprun {

class StagingPlace {
 public:
  /// Makes the directories above the destination. Fails with kInvalidArgument or kIo.
  static Result<StagingPlace> at(const std::filesystem::path& destination);

  /// Makes the other directory, and waits for its lock. Yields false where it has been finished or
  /// discarded meanwhile, so that all has to be looked at anew.
  Result<bool> hold();

  /// Removes what a process that was killed has left. REQUIRES, as all below: hold() yielded true.
  Result<void> empty();

  /// Writes the marker, and gives the directory its name: after a crash of the machine too, both
  /// are there with all files, or neither. Fails with kIo.
  Result<void> finish(std::string_view marker);

  /// Removes it, and lets go of the lock.
  void discard();

  /// Whether the destination is complete, with this marker. Fails with kInvalidArgument where it is
  /// something else, which nobody has asked us to remove. Asked at any time.
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
