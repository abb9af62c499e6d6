// The agent of one node without ddprun's command line, started by the tests of agent/. It has the
// few flags below, spelled as in ddprun; `--` ends them.

#include "base/log.hpp"
#include "base/parse.hpp"
#include "launcher/run/run.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <signal.h>

namespace {

int read_flag(ddprun::LaunchPlan& plan, const std::string& flag, const std::string& value) {
  if (flag == "--nproc-per-node") {
    plan.workers = std::atoi(value.c_str());
  } else if (flag == "--max-restarts") {
    plan.max_restarts = std::atoi(value.c_str());
  } else if (flag == "--shutdown-timeout") {
    plan.shutdown_timeout = ddprun::parse_seconds(value).value();
  } else if (flag == "--preempt-exit-code") {
    plan.notice.exit_status = std::atoi(value.c_str());
  } else if (flag == "--forward-signal") {
    plan.notice.forward = std::atoi(value.c_str());  // its number
  } else if (flag == "--log-dir") {
    plan.streams.log_directory = value;
  } else if (flag == "--redirects" && value == "3") {
    plan.streams.all = {.out = ddprun::StreamMode::kFile, .err = ddprun::StreamMode::kFile};
  } else {
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ddprun::LaunchPlan plan;
  plan.run_id = "test";
  plan.signals_to_handle = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  plan.signals_text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  int next = 1;
  for (; next + 1 < argc && std::string(argv[next]) != "--"; next += 2) {
    if (read_flag(plan, argv[next], argv[next + 1]) != 0) return 2;
  }
  if (next + 1 >= argc) return 2;
  plan.notice.grace = plan.shutdown_timeout;
  plan.command.program = argv[next + 1];
  plan.command.title = argv[next + 1];
  plan.command.arguments.assign(argv + next + 2, argv + argc);
  if (!ddprun::start_log("ddprun", "")) return 2;
  return ddprun::run(plan, {});
}
