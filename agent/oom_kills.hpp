#pragma once

// What the kernel has killed because memory ran out, in the memory cgroup of this process, in which
// workers start.

#include <cstdint>
#include <filesystem>

namespace ddprun {

class OomKills {
 public:
  /// Sees nothing if the kernel does not count, or shows no cgroups.
  OomKills();

  /// Those so far are not of interest.
  void forget();

  /// Whether there is one that was not taken yet. The kernel counts a process before it kills it.
  bool take_one();

 private:
  std::int64_t count() const;

  std::filesystem::path file_;  // empty: none
  std::int64_t taken_ = 0;
};

}  // namespace ddprun
