#include "agent/oom_kills.hpp"

#include "agent/core/memory_cgroup.hpp"
#include "base/file.hpp"

#include <cstddef>
#include <optional>

namespace ddprun {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 16;

std::optional<std::int64_t> read_count(const std::filesystem::path& file) {
  const auto text = read_file(file, kFileBytesMax);
  return text ? oom_kills_in(*text) : std::nullopt;
}

}  // namespace

OomKills::OomKills() {
  const auto cgroups = read_file("/proc/self/cgroup", kFileBytesMax);
  if (!cgroups) return;
  for (const std::string& file : oom_files_of(*cgroups)) {
    if (!read_count(file)) continue;
    file_ = file;
    forget();
    return;
  }
}

void OomKills::forget() {
  taken_ = count();
}

bool OomKills::take_one() {
  if (count() <= taken_) return false;
  ++taken_;
  return true;
}

std::int64_t OomKills::count() const {
  return file_.empty() ? 0 : read_count(file_).value_or(0);
}

}  // namespace ddprun
