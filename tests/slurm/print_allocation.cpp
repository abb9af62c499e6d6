// Prints the result of find_allocation() for the environment of this process as one JSON object, or
// null if there is none; for the tests on a cluster.

#include "base/environment.hpp"
#include "slurm/core/allocation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <optional>

#include <unistd.h>

namespace ddprun {
namespace {

template <class T>
std::string json(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "null";
}

std::string json(const Allocation& allocation) {
  return fmt::format(
      R"({{"job_id":{},"step_id":{},"nodes":["{}"],"tasks_per_node":[{}],"node_id":{},)"
      R"("node_name":"{}","task_id":{},"local_id":{},"job_nodes":{},"cpus":{},"gpus":{},)"
      R"("restarts":{},"array_task":{},"is_heterogeneous":{},"agents_share_nodes":"{}"}})",
      allocation.job_id,
      allocation.step_id,
      fmt::join(allocation.nodes, "\",\""),
      fmt::join(allocation.tasks_per_node, ","),
      allocation.node_id,
      allocation.node_name(),
      allocation.task_id,
      allocation.local_id,
      allocation.job_nodes,
      json(allocation.cpus),
      json(allocation.gpus),
      allocation.restarts,
      json(allocation.array_task),
      allocation.is_heterogeneous,
      allocation.has_shared_nodes() ? agents_share_nodes(allocation).detail : "");
}

}  // namespace
}  // namespace ddprun

int main() {
  const auto found = ddprun::find_allocation(ddprun::current_environment());
  if (!found) {
    fmt::print(stderr, "{}\n", found.error().detail);
    return 2;
  }
  const auto& allocation = *found;
  // One write of a whole line: tasks of one step share the output.
  const std::string line = (allocation ? ddprun::json(*allocation) : "null") + "\n";
  return ::write(STDOUT_FILENO, line.data(), line.size()) < 0 ? 1 : 0;
}
