#include "trainer/checkpoints_link.hpp"

#include <fmt/format.h>

#include <system_error>

#include <unistd.h>

namespace ddprun {

namespace fs = std::filesystem;

Result<void> link_checkpoints(const fs::path& directory, const fs::path& link) {
  std::error_code error;
  if (fs::equivalent(directory, link, error)) return {};
  const fs::path below = fs::absolute(directory, error)
                             .lexically_normal()
                             .lexically_relative(fs::absolute(link, error).lexically_normal());
  if (!below.empty() && *below.begin() != "..") {
    return make_error(
        Errc::kIo,
        fmt::format(
            "{} is inside {}, so the link would lead to itself; give another path to the directory",
            directory.string(),
            link.string()));
  }
  const fs::file_status there = fs::symlink_status(link, error);
  if (fs::exists(there) && !fs::is_symlink(there)) {
    return make_error(
        Errc::kIo,
        fmt::format(
            "{} exists and is not a link; move it away so that it can link to {}",
            link.string(),
            directory.string()));
  }
  const fs::path target = fs::absolute(directory, error);
  if (error) return make_errno_error(error.value(), directory.string());
  // Created beside it and then renamed: a reader finds the old link or the new one.
  const fs::path aside = fmt::format("{}.{}.tmp", link.string(), ::getpid());
  fs::create_symlink(target, aside, error);
  if (!error) fs::rename(aside, link, error);
  if (!error) return {};
  const int why = error.value();
  fs::remove(aside, error);
  return make_errno_error(why, link.string());
}

}  // namespace ddprun
