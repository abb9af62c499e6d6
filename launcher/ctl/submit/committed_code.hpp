#pragma once

// The current work tree, and its commit unpacked for jobs. Uses only git itself.

#include "base/error.hpp"
#include "launcher/ctl/submit/core/work_tree.hpp"

#include <filesystem>
#include <string>

namespace ddprun {

/// The current work tree.
struct Checkout {
  std::filesystem::path top;
  std::filesystem::path git;  // the repository's own directory, which all its work trees share
  std::string folder;         // the working directory, relative to top; empty: top itself
  WorkTree tree;
};

/// Fails with kProtocol if this is not a work tree, kNotFound if git is not installed.
Result<Checkout> find_checkout();

/// Why a job cannot run this commit, and what to do; empty: it can.
std::string why_not(const Checkout& here);

/// The script at `name` as committed; a script that is not in the commit is read from disk. Fails
/// with kNotFound, kLimit or kIo.
Result<std::string> read_script(const Checkout& here, const std::string& name);

/// Unpacks the commit's files into a directory of `shelf` named after the commit, unless they are
/// there: complete and read-only, or not at all. Yields that directory.
Result<std::filesystem::path> unpack_commit(
    const Checkout& here, const std::filesystem::path& shelf);

}  // namespace ddprun
