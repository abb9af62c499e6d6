#include "trainer/core/worker_place.hpp"

#include "base/parse.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <limits>

namespace ddprun {
namespace {

struct Limits {
  std::int64_t min;
  std::int64_t max;
};

/// The variable as a number, or `otherwise` if it is not set.
Result<std::int64_t> number(
    const FilledEnvironment& environment, const char* name, std::int64_t otherwise, Limits limits) {
  const auto text = environment.find(name);
  if (!text) return otherwise;
  const auto value = parse_int<std::int64_t>(*text);
  if (value && *value >= limits.min && *value <= limits.max) return *value;
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "{}='{}': expected a number from {} to {}; ddprun sets it, or unset it to run alone",
          environment.said_by(name),
          *text,
          limits.min,
          limits.max));
}

Result<Endpoint> store_endpoint(const FilledEnvironment& environment) {
  const auto host = environment.find(contract::kMasterAddr);
  if (!host || host->empty()) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "{} is not set, but {} is above 1; start the workers by ddprun, or set it to the host "
            "of rank 0",
            contract::kMasterAddr,
            contract::kWorldSize));
  }
  constexpr Limits kPorts{.min = 1, .max = std::numeric_limits<std::uint16_t>::max()};
  const auto port = number(environment, contract::kMasterPort, kUsualMasterPort, kPorts);
  if (!port) return port.error();
  return Endpoint{.host = *host, .port = static_cast<std::uint16_t>(*port)};
}

}  // namespace

Result<WorkerPlace> parse_worker_place(const FilledEnvironment& environment) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const auto world =
      number(environment, contract::kWorldSize, 1, {.min = 1, .max = WorkerPlace::kWorldMax});
  if (!world) return world.error();
  const auto rank = number(environment, contract::kRank, 0, {.min = 0, .max = *world - 1});
  if (!rank) return rank.error();
  if (*world > 1 && !environment.find(contract::kRank)) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "{} is {}, but {} is not set; start the workers by ddprun",
            contract::kWorldSize,
            *world,
            contract::kRank));
  }
  const auto local_rank =
      number(environment, contract::kLocalRank, 0, {.min = 0, .max = *world - 1});
  if (!local_rank) return local_rank.error();
  // Without a value, at least local_rank + 1 ranks are known to be there.
  const auto local_world = number(
      environment,
      contract::kLocalWorldSize,
      *local_rank + 1,
      {.min = *local_rank + 1, .max = *world});
  if (!local_world) return local_world.error();
  const auto attempt = number(environment, contract::kRestartCount, 0, {.min = 0, .max = kAny});
  if (!attempt) return attempt.error();
  const auto term = number(environment, contract::kTerm, 0, {.min = 0, .max = kAny});
  if (!term) return term.error();
  const auto round = number(environment, contract::kRound, 0, {.min = 0, .max = kAny});
  if (!round) return round.error();

  WorkerPlace place{
      .rank = static_cast<int>(*rank),
      .world = static_cast<int>(*world),
      .local_rank = static_cast<int>(*local_rank),
      .local_world = static_cast<int>(*local_world),
      .store = std::nullopt,
      .agent_store = environment.find(contract::kUseAgentStore) == "True",
      .search = std::nullopt,
      .run_id = environment.find(contract::kRunId).value_or(environment.run_name.value_or("none")),
      .attempt = *attempt,
      .term = static_cast<std::uint64_t>(*term),
      .round = static_cast<std::uint64_t>(*round)};
  if (place.world == 1) return place;
  auto store = store_endpoint(environment);
  if (!store) return store.error();
  place.store = *store;
  place.search = environment.search;
  return place;
}

}  // namespace ddprun
