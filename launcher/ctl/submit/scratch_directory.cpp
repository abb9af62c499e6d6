#include "launcher/ctl/submit/scratch_directory.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace ddprun {

namespace fs = std::filesystem;

Result<ScratchDirectory> ScratchDirectory::make(const fs::path& parent, std::string_view prefix) {
  std::string name = (parent / fmt::format("{}XXXXXX", prefix)).string();
  if (::mkdtemp(name.data()) == nullptr) return make_errno_error(errno, parent.string());
  return ScratchDirectory(name);
}

ScratchDirectory::~ScratchDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;
  // Nothing can be removed from a directory without write permission.
  for (fs::recursive_directory_iterator at(path_, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    if (!at->is_directory(ignored) || at->is_symlink(ignored)) continue;
    fs::permissions(at->path(), fs::perms::owner_write, fs::perm_options::add, ignored);
  }
  fs::remove_all(path_, ignored);
}

}  // namespace ddprun
