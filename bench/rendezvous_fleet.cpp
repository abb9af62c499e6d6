#include "bench/rendezvous_fleet.hpp"

#include "rendezvous/core/frame.hpp"
#include "rendezvous/core/message_json.hpp"

#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <variant>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 30s;
constexpr std::uint64_t kFirstIncarnation = 1'000'000;
constexpr std::uint16_t kSomePort = 29'400;  // nobody calls on it
constexpr int kSomePid = 4'711;

}  // namespace

RendezvousFleet::RendezvousFleet(asio::io_context& context, Options options)
    : options_(std::move(options)),
      links_(context, {}, [this](const Links::Event& event) { handle(event); }),
      agents_(static_cast<std::size_t>(options_.agents)),
      heartbeat_timer_(context, kNever),
      changed_(context, kNever) {
  for (Agent& agent : agents_) {
    const std::size_t index = index_of(agent);
    agent.node.incarnation = Incarnation{kFirstIncarnation + index};
    agent.node.host = fmt::format("node{:05}", index + 1);
    agent.node.listens = {.host = "127.0.0.1", .port = kSomePort};
  }
}

asio::awaitable<void> RendezvousFleet::serve() {
  TaskScope tasks(co_await asio::this_coro::executor);
  tasks.spawn(links_.serve());
  tasks.spawn(keep_time());
  co_await tasks.join();
}

asio::awaitable<void> RendezvousFleet::keep_time() {
  co_await asio::this_coro::throw_if_cancelled(false);
  for (;;) {
    const auto [re_armed] = co_await heartbeat_timer_.async_wait(kTuple);
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) co_return;
    if (re_armed) continue;
    const TimePoint now = Clock::now();
    while (!heartbeats_due_.empty() && heartbeats_due_.begin()->first <= now) {
      const std::size_t index = heartbeats_due_.begin()->second;
      heartbeats_due_.erase(heartbeats_due_.begin());
      if (!agents_[index].is_gone) heartbeat(agents_[index]);
    }
    heartbeat_timer_.expires_at(heartbeats_due_.empty() ? kNever : heartbeats_due_.begin()->first);
  }
}

asio::awaitable<Result<void>> RendezvousFleet::until(std::function<bool()> is_over) {
  const TimePoint limit = Clock::now() + kPatience;
  for (;;) {
    if (failed_) co_return *failed_;
    if (is_over()) co_return Result<void>();
    if (Clock::now() >= limit) {
      co_return make_error(Errc::kTimedOut, "the leader made no progress for 30 s");
    }
    changed_.expires_at(limit);
    co_await changed_.async_wait(kTuple);
  }
}

asio::awaitable<Result<Duration>> RendezvousFleet::rank() {
  const TimePoint begin = Clock::now();
  started_ = 0;
  for (const Agent& agent : agents_) {
    links_.call(link_of(agent), options_.leader);
  }
  auto const done = co_await until([this] { return started_ == agents(); });
  if (!done) co_return done.error();
  co_return last_started_ - begin;
}

asio::awaitable<Result<RendezvousFleet::Failure>> RendezvousFleet::fail_one() {
  started_ = 0;
  stopped_.clear();
  Agent& culprit = agents_.back();
  const FailureNews why{
      .rank = 1,
      .local_rank = 0,
      .pid = kSomePid,
      .host = culprit.node.host,
      .how = "was ended by SIGKILL",
      .exit_status = 137,
      .signal = 9};
  const TimePoint begin = Clock::now();
  news(culprit, WorkersState::kFailed, why);
  auto const done = co_await until([this] { return started_ == agents(); });
  if (!done) co_return done.error();
  Failure failure;
  for (const TimePoint at : stopped_) {
    failure.stopped.push_back(at - begin);
  }
  failure.restarted = last_started_ - begin;
  co_return failure;
}

asio::awaitable<Result<Duration>> RendezvousFleet::lose_one() {
  started_ = 0;
  Agent& victim = agents_[gone_++];
  const TimePoint begin = Clock::now();
  victim.is_gone = true;
  links_.close(link_of(victim));
  victim.line.reset();
  auto const done = co_await until([this] { return started_ == agents(); });
  if (!done) co_return done.error();
  co_return last_started_ - begin;
}

asio::awaitable<Result<std::vector<Duration>>> RendezvousFleet::send_heartbeats_for(Duration time) {
  Timer over(co_await asio::this_coro::executor, Clock::now() + time);
  co_return co_await send_heartbeats_until(over);
}

asio::awaitable<Result<std::vector<Duration>>> RendezvousFleet::send_heartbeats_until(Timer& over) {
  answered_.clear();
  co_await over.async_wait(kTuple);
  if (failed_) co_return *failed_;
  co_return std::exchange(answered_, {});
}

// What the leader sends. -----------------------------------------------------------------------

void RendezvousFleet::handle(const Links::Event& event) {
  if (const auto* connection = std::get_if<Links::Connected>(&event)) {
    connected(of(connection->link));
  } else if (const auto* received = std::get_if<Links::Received>(&event)) {
    Agent& agent = of(received->link);
    std::visit([&](const auto& what) { on(agent, what); }, received->message);
  } else if (const auto* closed = std::get_if<Links::Closed>(&event)) {
    give_up(with_context(of(closed->link).node.host, closed->why));
  }
}

void RendezvousFleet::connected(Agent& agent) {
  send(
      agent,
      Hello{
          .job = options_.job,
          .node = agent.node,
          .nodes_min = options_.nodes.min(),
          .nodes_max = options_.nodes.max(),
          .max_restarts = options_.max_restarts,
          .lease = lease_,
          .has_fence = false,
          .voter_state = {}});
}

void RendezvousFleet::on(Agent& agent, const Welcome& welcome) {
  lease_ = welcome.lease;
  open_line(agent, {.term = welcome.term, .leader = welcome.leader.incarnation});
  news(agent, WorkersState::kStopped);
  heartbeat(agent);
}

void RendezvousFleet::open_line(Agent& agent, const Leadership& leadership) {
  std::string bytes(opening_of(Protocol::kLifeline));
  const LifelineHello hello{
      .job = options_.job, .node = agent.node.incarnation, .leadership = leadership, .proof = {}};
  auto said = append_frame(bytes, encode(hello));
  boost::system::error_code error;
  agent.line.emplace(changed_.get_executor());
  static_cast<void>(agent.line->connect(
      {asio::ip::make_address(options_.leader.host), options_.leader.port}, error));
  if (!error) asio::write(*agent.line, asio::buffer(bytes), error);
  if (error) said = make_error(Errc::kPeerLost, error.message());
  if (!said) give_up(with_context("a lifeline", said.error()));
}

void RendezvousFleet::on(Agent& agent, const HeartbeatReply& reply) {
  const bool is_new = reply.number == agent.heartbeat && reply.number > agent.heard;
  if (reply.number > agent.heard) send(agent, Confirm{.heard = reply.number});
  agent.heard = std::max(agent.heard, reply.number);
  if (!is_new) return;
  answered_.push_back(Clock::now() - agent.heartbeat_at);
  set_next_heartbeat(agent, agent.heartbeat_at + reply.next);
}

void RendezvousFleet::on(Agent& agent, const OfferRound& offer) {
  agent.round = offer.round;
  send(agent, Acknowledge{.round = offer.round});
}

void RendezvousFleet::on(Agent& agent, const StartRound& /*start*/) {
  news(agent, WorkersState::kRunning);
  last_started_ = Clock::now();
  if (++started_ == agents()) changed_.cancel();
}

void RendezvousFleet::on(Agent& agent, const StopRound& /*stop*/) {
  stopped_.push_back(Clock::now());
  news(agent, WorkersState::kStopped);
}

void RendezvousFleet::on(Agent& /*agent*/, const VerdictNews& verdict) {
  give_up(make_error(Errc::kPeerLost, fmt::format("the job ended: {}", verdict.verdict.why)));
}

void RendezvousFleet::on(Agent& agent, const Refuse& refuse) {
  give_up(
      make_error(Errc::kPeerLost, fmt::format("{} was refused: {}", agent.node.host, refuse.why)));
}

// What the agents send. ------------------------------------------------------------------------

void RendezvousFleet::heartbeat(Agent& agent) {
  agent.heartbeat_at = Clock::now();
  send(agent, Heartbeat{.number = ++agent.heartbeat, .heard = agent.heard});
  set_next_heartbeat(agent, agent.heartbeat_at + heartbeat_interval());
}

void RendezvousFleet::set_next_heartbeat(Agent& agent, TimePoint due) {
  heartbeats_due_.erase({agent.due, index_of(agent)});
  agent.due = due;
  heartbeats_due_.emplace(due, index_of(agent));
  if (due < heartbeat_timer_.expiry()) heartbeat_timer_.expires_at(due);
}

void RendezvousFleet::news(Agent& agent, WorkersState state, std::optional<FailureNews> failure) {
  WorkerNews news;
  news.round = agent.round;
  news.state = state;
  news.failure = std::move(failure);
  if (state == WorkersState::kRunning) news.pids = {kSomePid};
  send(agent, news);
}

void RendezvousFleet::send(const Agent& agent, const Message& message) {
  links_.send(link_of(agent), message);
}

void RendezvousFleet::give_up(Error why) {
  if (!failed_) failed_ = std::move(why);
  changed_.cancel();
}

}  // namespace ddprun
