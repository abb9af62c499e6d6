// The whole table, and the rows of flags without effect or with a text as their only effect.

#include "launcher/flags/core/shared_setters.hpp"

#include <algorithm>
#include <array>

namespace ddprun {
namespace {

constexpr std::string_view kNothing = "Checked, without effect";
constexpr std::string_view kAbout = "About ddprun";

Result<void> monitor_interval(const Given& given, Options& /*options*/) {
  const auto interval = parse_double(given.text);
  if (!interval || *interval <= 0) return invalid_argument("expected seconds, a number above 0");
  return {};
}

Result<void> exit_barrier_timeout(const Given& given, Options& /*options*/) {
  const auto timeout = seconds_of(given);
  if (!timeout) return timeout.error();
  return {};
}

Result<void> logs_specs(const Given& given, Options& /*options*/) {
  if (given.text == "default") return {};
  return invalid_argument(
      "names a Python plug-in, which ddprun does not load; leave it out and use --log-dir, -r and "
      "-t");
}

Result<void> use_env(const Given& /*given*/, Options& /*options*/) {
  return {};
}

// clang-format off
// NOLINTBEGIN(modernize-use-designated-initializers): a table; the columns are those of Flag
constexpr std::array kOtherFlags = {
    Flag{kNothing, "monitor-interval", 0, "SECONDS", "0.1", "ddprun does not poll: the end of a process is an event.", true,
         monitor_interval},
    Flag{kNothing, "exit-barrier-timeout", 0, "SECONDS", "300", "There is no exit barrier.", true,
         exit_barrier_timeout},
    Flag{kNothing, "logs-specs", 0, "default", "default", "Other values name Python plug-ins and are refused.", false,
         logs_specs},
    Flag{kNothing, "use-env", 0, "", "on", "LOCAL_RANK is always in the environment.", false, use_env},
    Flag{kAbout, "help", 'h', "", "", "Print this text.", false, nullptr},
    Flag{kAbout, "print-completion", 0, "bash|zsh", "", "Print a script that completes ddprun's options in that shell.", false, nullptr},
    Flag{kAbout, "version", 0, "", "", "Print the version.", false, nullptr},
};
// NOLINTEND(modernize-use-designated-initializers)
// clang-format on

}  // namespace

std::span<const Flag> all_flags() {
  static const std::vector<Flag> all = [] {
    std::vector<Flag> joined;
    for (const std::span<const Flag> rows :
         {job_flags(),
          rendezvous_flags(),
          failure_flags(),
          output_flags(),
          std::span<const Flag>(kOtherFlags)}) {
      joined.insert(joined.end(), rows.begin(), rows.end());
    }
    return joined;
  }();
  return all;
}

const Flag& flag_named(std::string_view name) {
  return *std::ranges::find(all_flags(), name, &Flag::name);
}

}  // namespace ddprun
