#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The state of a work tree, as git reports it.
struct WorkTree {
  std::string commit;                // 40 or 64 hex digits; empty: there is none yet
  std::vector<std::string> changes;  // paths that differ from the commit, or that it does not have

  bool operator==(const WorkTree&) const = default;
};

/// Reads the output of `git status --porcelain=v2 --branch -z`; files that git ignores are not
/// changes. Fails with kProtocol.
Result<WorkTree> parse_git_status(std::string_view text);

/// The first few paths, as one clause: "train.py, a.txt and 3 more". REQUIRES: there is at least
/// one.
std::string first_few(const std::vector<std::string>& paths);

}  // namespace ddprun
