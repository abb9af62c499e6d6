#include "launcher/ctl/doctor/connectivity.hpp"

#include "base/deadline.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/errand.hpp"
#include "rendezvous/name_service.hpp"
#include "rendezvous/status_client.hpp"
#include "rendezvous/tcp.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kCallersMax = 256;
constexpr auto kAcceptAgainAfter = std::chrono::milliseconds(10);
// The second and third probe are for a node that did not listen yet at the first: one when half of
// the time is over, one when that node connects here.
constexpr int kProbesMax = 3;

// For the program that listens in place of a doctor to say which job it is of, if any.
constexpr Duration kJobLimit = std::chrono::seconds(5);

using Transferred = std::tuple<boost::system::error_code, std::size_t>;

/// Wall-clock time, in nanoseconds since 1970.
std::int64_t wall_clock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  constexpr std::int64_t kSecond = 1'000'000'000;
  return now.tv_sec * kSecond + now.tv_nsec;
}

asio::awaitable<Transferred> receive(tcp::socket& socket, std::string& line) {
  co_return co_await asio::async_read_until(
      socket, asio::dynamic_buffer(line, Greeting::kBytesMax), '\n', kTuple);
}

asio::awaitable<Transferred> send(tcp::socket& socket, const std::string& line) {
  co_return co_await asio::async_write(socket, asio::buffer(line), kTuple);
}

/// The result of a read or write with a deadline.
Result<void> outcome(const Result<Transferred>& ended) {
  if (!ended) return ended.error();
  const boost::system::error_code error = std::get<0>(*ended);
  if (!error) return {};
  return make_error(
      Errc::kProtocol,
      "the program that listens there closed the connection; it is not ddpctl doctor");
}

/// What a probe shows about the other node's clock.
struct Clocks {
  Duration ahead{};  // how far the other clock is ahead
  Duration doubt{};
};

/// The other node read its clock somewhere between our two readings.
Clocks compare(std::int64_t sent_ns, std::int64_t other_ns, std::int64_t received_ns) {
  const std::int64_t half_ns = (received_ns - sent_ns) / 2;
  return {
      .ahead = std::chrono::nanoseconds(other_ns - (sent_ns + half_ns)),
      .doubt = std::chrono::nanoseconds(half_ns)};
}

struct ProbedNode {
  NodeConnectivity result;
  int probes = 0;
  bool is_due = true;  // or being probed

  bool is_connected() const { return !result.error && (result.was_heard || !result.can_be_heard); }

  /// Another probe may succeed after a failed one.
  bool may_be_probed_again() const { return result.error && probes < kProbesMax && !is_due; }
};

class ConnectivityCheck {
 public:
  ConnectivityCheck(
      asio::io_context& context,
      const Allocation& allocation,
      std::uint16_t port,
      ConnectivityLimits limits)
      : context_(context),
        step_(allocation.name()),
        own_id_(allocation.node_id),
        port_(port),
        limits_(limits),
        someone_is_due_(context, kNever),
        end_(context, kNever) {
    const Error untried = make_error(Errc::kTimedOut, "no time was left to connect to it");
    for (const std::string& node : allocation.nodes) {
      if (nodes_.size() != own_id_) due_.push_back(nodes_.size());
      nodes_.push_back({.result = {.node = node, .error = untried}});
    }
  }

  asio::awaitable<void> run(std::vector<Descriptor> listening) {
    TaskScope scope(context_.get_executor());
    for (ProbedNode& node : nodes_) {
      node.result.can_be_heard = !listening.empty();
    }
    for (Descriptor& socket : listening) {
      scope.spawn(accept_callers({context_, tcp::v6(), socket.release()}, scope));
    }
    for (std::size_t i = 0; i < std::min(kCallersMax, due_.size()); ++i) {
      scope.spawn(probe_due_nodes());
    }
    const TimePoint begin = Clock::now();
    end_.expires_at(begin + limits_.all / 2);
    co_await end_.async_wait(kTuple);
    if (!are_all_connected()) {
      // If only the way here is blocked, a node whose doctor started late never connects here.
      for (std::size_t node = 0; node < nodes_.size(); ++node) {
        probe_again(node);
      }
      end_.expires_at(begin + limits_.all);
      co_await end_.async_wait(kTuple);
    }
    is_over_ = true;
    scope.cancel();
    co_await scope.join();
  }

  std::vector<NodeConnectivity> results() const {
    std::vector<NodeConnectivity> others;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (node != own_id_) others.push_back(nodes_[node].result);
    }
    return others;
  }

 private:
  asio::awaitable<void> probe_due_nodes() {
    co_await asio::this_coro::throw_if_cancelled(false);
    while (!is_over_) {
      if (due_.empty()) {
        co_await someone_is_due_.async_wait(kTuple);
        continue;
      }
      const std::size_t node = due_.front();
      due_.pop_front();
      ProbedNode& probed = nodes_[node];
      ++probed.probes;
      const Endpoint endpoint{.host = probed.result.node, .port = port_};
      const auto clocks = co_await probe(endpoint);
      std::optional<std::string> job;
      if (!clocks && clocks.error().is(Errc::kProtocol)) job = co_await find_job(endpoint);
      // A probe that the end cut short shows nothing; the result of the one before it counts.
      if (is_over_ && !clocks && !job) co_return;
      probed.is_due = false;
      probed.result.error = clocks || job ? std::nullopt : std::optional(clocks.error());
      probed.result.job = std::move(job);
      if (clocks) probed.result.ahead = clocks->ahead;
      if (clocks) probed.result.doubt = clocks->doubt;
      take_news_of(node);
    }
  }

  asio::awaitable<Result<Clocks>> probe(Endpoint endpoint) {
    Timer limit(context_, Clock::now() + limits_.probe);
    auto socket = co_await connect(endpoint, names_, limit);
    if (!socket) co_return socket.error();
    const Greeting ours = greeting(wall_clock_ns());
    const std::string hello = ours.to_line();
    const auto sent = co_await before(limit.expiry(), send(*socket, hello));
    std::string line;
    const auto received = co_await before(limit.expiry(), receive(*socket, line));
    const auto talked = outcome(sent) ? outcome(received) : outcome(sent);
    if (!talked) co_return talked.error();
    const auto theirs = Greeting::parse(line);
    if (!theirs) co_return theirs.error();
    co_return compare(ours.clock_ns, theirs->clock_ns, wall_clock_ns());
  }

  /// The job whose ddprun listens at `endpoint`, which is no doctor; none if it is another program.
  asio::awaitable<std::optional<std::string>> find_job(Endpoint endpoint) {
    const TimePoint deadline = Clock::now() + std::min(limits_.probe, kJobLimit);
    const auto asked = Errand<std::string>::begin(
        "cannot ask which job is running",
        [endpoint, deadline] { return job_at(endpoint, deadline); });
    if (!asked) co_return std::nullopt;
    Timer limit(context_, deadline);
    const auto answer = co_await (*asked)->await(limit);
    if (!answer || !*answer) co_return std::nullopt;
    co_return **answer;
  }

  asio::awaitable<void> accept_callers(tcp::acceptor listening, TaskScope& scope) {
    co_await asio::this_coro::throw_if_cancelled(false);
    while (!is_over_) {
      auto [error, socket] = co_await listening.async_accept(kTuple);
      if (error == asio::error::operation_aborted) co_return;
      if (!error && scope.size() < kCallersMax) scope.spawn(serve_caller(std::move(socket)));
      if (!error) continue;
      Timer pause(context_, Clock::now() + kAcceptAgainAfter);  // no descriptor is left
      co_await pause.async_wait(kTuple);
    }
  }

  asio::awaitable<void> serve_caller(tcp::socket socket) {
    co_await asio::this_coro::throw_if_cancelled(false);
    const TimePoint limit = Clock::now() + limits_.probe;
    std::string line;
    const auto received = co_await before(limit, receive(socket, line));
    if (!outcome(received)) co_return;
    const auto theirs = Greeting::parse(line);
    const bool is_of_step = theirs && theirs->step == step_ && theirs->node_id < nodes_.size();
    if (!is_of_step || theirs->node_id == own_id_) co_return;
    const std::string hello = greeting(wall_clock_ns()).to_line();
    const auto sent = co_await before(limit, send(socket, hello));
    if (!outcome(sent)) co_return;
    nodes_[theirs->node_id].result.was_heard = true;
    take_news_of(theirs->node_id);
  }

  void probe_again(std::size_t node) {
    ProbedNode& probed = nodes_[node];
    if (!probed.may_be_probed_again()) return;
    probed.is_due = true;
    due_.push_back(node);
    someone_is_due_.cancel();
  }

  void take_news_of(std::size_t node) {
    if (nodes_[node].result.was_heard) probe_again(node);
    if (are_all_connected()) end_.cancel();
  }

  bool are_all_connected() const {
    const auto connected = std::ranges::count_if(nodes_, &ProbedNode::is_connected);
    return std::cmp_equal(connected + 1, nodes_.size());
  }

  Greeting greeting(std::int64_t clock_ns) const {
    return {.step = step_, .node_id = own_id_, .clock_ns = clock_ns};
  }

  asio::io_context& context_;
  std::string step_;
  std::size_t own_id_;
  std::uint16_t port_;
  ConnectivityLimits limits_;
  NameService names_;
  std::vector<ProbedNode> nodes_;  // by node id; our own entry is unused
  std::deque<std::size_t> due_;    // to be probed
  Timer someone_is_due_;           // never expires; cancelled to wake the probers
  Timer end_;                      // cancelled when all nodes have been reached both ways
  bool is_over_ = false;
};

}  // namespace

std::vector<NodeConnectivity> check_connectivity(
    const Allocation& allocation,
    std::uint16_t port,
    std::vector<Descriptor> listening,
    ConnectivityLimits limits) {
  asio::io_context context(1);
  ConnectivityCheck probes(context, allocation, port, limits);
  std::exception_ptr thrown;
  asio::co_spawn(
      context, probes.run(std::move(listening)), [&thrown](const std::exception_ptr& what) {
        thrown = what;
      });
  context.run();
  if (thrown) std::rethrow_exception(thrown);
  return probes.results();
}

}  // namespace ddprun
