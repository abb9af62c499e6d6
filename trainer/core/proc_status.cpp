#include "trainer/core/proc_status.hpp"

#include <charconv>
#include <string>

namespace ddprun {

Result<std::int64_t> parse_peak_rss(std::string_view status) {
  constexpr std::string_view kName = "VmHWM:";
  constexpr std::int64_t kKibibyte = 1024;
  constexpr std::int64_t kKibibytesMax = std::int64_t{1} << 50;
  const std::size_t at = status.starts_with(kName) ? 0 : status.find("\nVmHWM:");
  if (at == std::string_view::npos) {
    return make_error(Errc::kCorrupt, "no VmHWM in the status of a process");
  }
  std::string_view rest = status.substr(status.find(':', at) + 1);
  rest = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  std::int64_t kibibytes = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), kibibytes);
  const std::string_view unit = rest.substr(static_cast<std::size_t>(end - rest.data()));
  if (error != std::errc() || kibibytes < 0 || kibibytes > kKibibytesMax || unit != " kB") {
    return make_error(Errc::kCorrupt, "VmHWM of a process's status: '" + std::string(rest) + "'");
  }
  return kibibytes * kKibibyte;
}

}  // namespace ddprun
