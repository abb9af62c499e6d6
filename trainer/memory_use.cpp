#include "trainer/memory_use.hpp"

#include "base/file.hpp"
#include "trainer/core/proc_status.hpp"

namespace ddprun {

Result<std::int64_t> peak_rss_bytes(const std::filesystem::path& proc) {
  constexpr std::size_t kStatusMax = 65'536;
  const auto status = read_file(proc / "self" / "status", kStatusMax);
  if (!status) return status.error();
  return parse_peak_rss(*status);
}

}  // namespace ddprun
