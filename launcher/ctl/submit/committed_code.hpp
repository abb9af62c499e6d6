#pragma once

// The work tree around us, and its commit unpacked for jobs. All of it by git itself.

#include "base/error.hpp"
#include "launcher/ctl/submit/core/work_tree.hpp"

#include <filesystem>
#include <string>

namespace ddprun {

/// The work tree that we are in.
struct Checkout {
  std::filesystem::path top;
  std::filesystem::path git;  // the repository's own directory, which all its work trees share
  std::string folder;         // where we are, below top; empty: in top
  WorkTree tree;
};

/// Fails with kProtocol where git says that there is none, kNotFound where there is no git.
Result<Checkout> find_checkout();

/// Why the commit cannot be what a job runs, and what to do about it; empty: it can.
std::string why_not(const Checkout& here);

/// The script at `name` as the commit has it; one that is not in the commit is read as it is.
/// Fails with kNotFound, kLimit or kIo.
Result<std::string> read_script(const Checkout& here, const std::string& name);

/// The commit's files in a directory of `shelf` that has its name, unpacked now unless they are
/// there: complete, and read-only, or not at all. Yields that directory.
Result<std::filesystem::path> unpack_commit(
    const Checkout& here, const std::filesystem::path& shelf);

}  // namespace ddprun
