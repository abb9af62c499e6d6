#include "bench/rendezvous_bench.hpp"

#include "base/standard_streams.hpp"
#include "bench/echo_floor.hpp"
#include "bench/leader.hpp"
#include "bench/process_usage.hpp"
#include "bench/rendezvous_fleet.hpp"
#include "bench/server.hpp"
#include "bench/store_load.hpp"
#include "rendezvous/core/frame.hpp"
#include "rendezvous/core/message_json.hpp"
#include "rendezvous/listener.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ddprun {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr const char* kJob = "bench";
constexpr Incarnation kLeader{1};
constexpr double kMebibyte = 1 << 20U;

/// What a run has shown.
struct Findings {
  Duration ranked{};
  std::vector<Duration> stopped;  // of each failure, on each agent
  std::vector<Duration> restarted;
  std::vector<Duration> reranked;
  std::vector<Duration> answered;
  Duration steady{};
  Duration server_cpu{};
  Duration floor_cpu{};
  std::int64_t server_bytes = 0;
  Duration gloo{};                        // the start-up of all workers
  std::vector<Duration> answered_beside;  // heartbeats, meanwhile
};

int losses_of(const RendezvousBenchOptions& options) {
  return std::min(options.repeats, options.agents - 1);
}

NodeRange nodes_of(const RendezvousBenchOptions& options) {
  return {1 + options.agents - losses_of(options), 1 + options.agents};
}

Result<void> lead(const RendezvousBenchOptions& options, const BenchServer::Listens& listens) {
  asio::io_context context(1);
  RendezvousPolicy policy;
  policy.job = kJob;
  policy.node.incarnation = kLeader;
  policy.node.host = "node00000";
  policy.node.workload.step = "1.0";  // srun starts so many: no node comes again
  policy.nodes = nodes_of(options);
  policy.max_restarts = options.repeats;
  auto leader = BenchLeader::open(context, std::move(policy));
  if (!leader) return leader.error();
  listens((*leader)->port());
  asio::co_spawn(context, (*leader)->serve(), [](const std::exception_ptr& thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
  context.run();
  return make_error(Errc::kIo, "it does not lead any more");
}

class RendezvousBench {
 public:
  RendezvousBench(RendezvousBenchOptions options, const BenchServer& server)
      : options_(options), server_(server) {}

  Result<Findings> run() {
    asio::io_context context(1);
    RendezvousFleet fleet(
        context,
        {.leader = {.host = "127.0.0.1", .port = server_.port()},
         .job = kJob,
         .nodes = nodes_of(options_),
         .agents = options_.agents,
         .max_restarts = options_.repeats});
    Result<void> outcome;
    asio::co_spawn(context, in_order(fleet, outcome), [](const std::exception_ptr& thrown) {
      if (thrown) std::rethrow_exception(thrown);
    });
    context.run();
    if (!outcome) return outcome.error();
    return findings_;
  }

 private:
  asio::awaitable<void> in_order(RendezvousFleet& fleet, Result<void>& outcome) {
    TaskScope tasks(co_await asio::this_coro::executor);
    tasks.spawn(fleet.serve());
    outcome = co_await measure(fleet);
    tasks.cancel();
    co_await tasks.join();
  }

  asio::awaitable<Result<void>> measure(RendezvousFleet& fleet) {
    auto ranked = co_await fleet.rank();
    if (!ranked) co_return ranked.error();
    findings_.ranked = *ranked;
    auto done = co_await be_steady(fleet);
    if (done && options_.workers > 0) done = co_await serve_workers(fleet);
    for (int i = 0; done && i < options_.repeats; ++i) {
      done = co_await fail(fleet);
    }
    for (int i = 0; done && i < losses_of(options_); ++i) {
      done = co_await lose(fleet);
    }
    co_return done;
  }

  asio::awaitable<Result<void>> be_steady(RendezvousFleet& fleet) {
    auto const warm = co_await fleet.send_heartbeats_for(fleet.heartbeat_interval());
    if (!warm) co_return warm.error();
    const auto before = cpu_time_of(server_.pid());
    const TimePoint begin = Clock::now();
    const auto time =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options_.steady_s));
    auto answered = co_await fleet.send_heartbeats_for(time);
    if (!answered) co_return answered.error();
    findings_.answered = *std::move(answered);
    findings_.steady = Clock::now() - begin;
    const auto after = cpu_time_of(server_.pid());
    const auto bytes = resident_bytes_of(server_.pid());
    if (!before || !after || !bytes) {
      co_return make_error(Errc::kPeerLost, "the server has ended");
    }
    findings_.server_cpu = *after - *before;
    findings_.server_bytes = *bytes;
    co_return Result<void>();
  }

  /// The workers have a thread of their own, so that what is late is the leader's doing.
  asio::awaitable<Result<void>> serve_workers(RendezvousFleet& fleet) {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    Timer over(executor, kNever);
    Result<StoreLoadResult> load = make_error(Errc::kCancelled, "the workers have not started");
    std::jthread workers([&] {
      load = start_workers();
      asio::post(executor, [&over] { over.cancel(); });
    });
    auto answered = co_await fleet.send_heartbeats_until(over);
    workers.join();
    if (!answered) co_return answered.error();
    if (!load) co_return with_context("the workers", load.error());
    findings_.gloo = load->wall;
    findings_.answered_beside = *std::move(answered);
    co_return Result<void>();
  }

  Result<StoreLoadResult> start_workers() const {
    StoreBenchOptions load;
    load.endpoint = {.host = "127.0.0.1", .port = server_.port()};
    load.workload = StoreWorkload::kGloo;
    load.clients = options_.workers;
    StoreLoad workers(load);
    auto const connected = workers.connect();
    if (!connected) return connected.error();
    return workers.run();
  }

  asio::awaitable<Result<void>> fail(RendezvousFleet& fleet) {
    auto failure = co_await fleet.fail_one();
    if (!failure) co_return failure.error();
    auto& stopped = findings_.stopped;
    stopped.insert(stopped.end(), failure->stopped.begin(), failure->stopped.end());
    findings_.restarted.push_back(failure->restarted);
    co_return co_await let_it_calm_down(fleet);
  }

  asio::awaitable<Result<void>> lose(RendezvousFleet& fleet) {
    auto reranked = co_await fleet.lose_one();
    if (!reranked) co_return reranked.error();
    findings_.reranked.push_back(*reranked);
    co_return co_await let_it_calm_down(fleet);
  }

  /// The next event finds the job as it mostly is.
  asio::awaitable<Result<void>> let_it_calm_down(RendezvousFleet& fleet) {
    auto const sent = co_await fleet.send_heartbeats_for(fleet.heartbeat_interval());
    if (!sent) co_return sent.error();
    co_return Result<void>();
  }

  const RendezvousBenchOptions options_;
  const BenchServer& server_;
  Findings findings_;
};

std::size_t frame_bytes(const Message& message) {
  return sizeof(std::uint32_t) + encode(message).size();
}

/// The same heartbeats and answers, echoed.
Result<Duration> floor_of(const RendezvousBenchOptions& options, const Findings& findings) {
  constexpr std::int64_t kSomeHeartbeat = 100;
  const RendezvousPolicy defaults;
  return measure_echo(
      {.connections = options.agents,
       .interval = heartbeat_interval(defaults.lease),
       .slots = kHeartbeatSlots,
       .time = findings.steady,
       .question_bytes =
           frame_bytes(Heartbeat{.number = kSomeHeartbeat, .heard = kSomeHeartbeat - 1}),
       .answer_bytes = frame_bytes(HeartbeatReply{
           .number = kSomeHeartbeat,
           .grant = defaults.lease,
           .round = {.term = 1, .number = 1},
           .voter_count = options.agents + 1,
           .next = heartbeat_interval(defaults.lease)})});
}

/// The value below which `part` of `values` lie; none if there are none.
nlohmann::ordered_json percentile_ms(std::vector<Duration> values, double part) {
  if (values.empty()) return nullptr;
  const auto last = static_cast<double>(values.size() - 1);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(part * last);
  std::ranges::nth_element(values, at);
  return Milliseconds(*at).count();
}

nlohmann::ordered_json report_of(const RendezvousBenchOptions& options, const Findings& findings) {
  const auto percent = [&](Duration cpu) {
    return 100 * to_seconds(cpu) / to_seconds(findings.steady);
  };
  nlohmann::ordered_json report = {
      {"agents", options.agents},
      {"ranked_ms", Milliseconds(findings.ranked).count()},
      {"failures", options.repeats},
      {"stop_orders", findings.stopped.size()},
      {"stop_p50_ms", percentile_ms(findings.stopped, 0.50)},
      {"stop_p99_ms", percentile_ms(findings.stopped, 0.99)},
      {"stop_max_ms", percentile_ms(findings.stopped, 1)},
      {"restarted_p50_ms", percentile_ms(findings.restarted, 0.50)},
      {"restarted_max_ms", percentile_ms(findings.restarted, 1)},
      {"losses", findings.reranked.size()},
      {"reranked_p50_ms", percentile_ms(findings.reranked, 0.50)},
      {"reranked_max_ms", percentile_ms(findings.reranked, 1)},
      {"steady_s", to_seconds(findings.steady)},
      {"heartbeats_answered", findings.answered.size()},
      {"heartbeat_p50_ms", percentile_ms(findings.answered, 0.50)},
      {"heartbeat_p99_ms", percentile_ms(findings.answered, 0.99)},
      {"server_cpu_percent", percent(findings.server_cpu)},
      {"floor_cpu_percent", percent(findings.floor_cpu)},
      {"server_rss_mib", static_cast<double>(findings.server_bytes) / kMebibyte}};
  if (options.workers > 0) {
    report["workers"] = options.workers;
    report["gloo_s"] = to_seconds(findings.gloo);
    report["gloo_heartbeats_answered"] = findings.answered_beside.size();
    report["gloo_heartbeat_p50_ms"] = percentile_ms(findings.answered_beside, 0.50);
    report["gloo_heartbeat_p99_ms"] = percentile_ms(findings.answered_beside, 0.99);
    report["gloo_heartbeat_max_ms"] = percentile_ms(findings.answered_beside, 1);
  }
  return report;
}

std::string table_of(const nlohmann::ordered_json& report) {
  std::string table;
  for (const auto& [name, value] : report.items()) {
    table += fmt::format("{:<20} {}\n", name, value.dump());
  }
  return table;
}

}  // namespace

Result<void> bench_rendezvous(const RendezvousBenchOptions& options) {
  raise_descriptor_limit();
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  std::optional<Findings> findings;
  {
    const auto server = BenchServer::start(
        [&options](const BenchServer::Listens& listens) { return lead(options, listens); });
    if (!server) return server.error();
    auto found = RendezvousBench(options, *server).run();
    if (!found) return found.error();
    findings = *std::move(found);
  }
  const auto floor = floor_of(options, *findings);
  if (!floor) return with_context("the floor", floor.error());
  findings->floor_cpu = *floor;
  const nlohmann::ordered_json report = report_of(options, *findings);
  return write_stdout(options.json ? report.dump() + "\n" : table_of(report));
}

}  // namespace ddprun
