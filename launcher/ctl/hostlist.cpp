#include "launcher/ctl/hostlist.hpp"

#include "base/standard_streams.hpp"
#include "slurm/core/hostlist.hpp"

#include <fmt/format.h>

namespace ddprun {

Result<void> show_hostlist(const HostlistOptions& options) {
  const auto hosts = expand_hostlist(fmt::format("{}", fmt::join(options.lists, ",")));
  if (!hosts) return hosts.error();
  if (options.fold) return write_stdout(fold_hostlist(*hosts) + '\n');
  std::string lines;
  for (const std::string& host : *hosts) {
    lines.append(host).append("\n");
  }
  return write_stdout(lines);
}

}  // namespace ddprun
