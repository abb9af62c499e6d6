#include "bench/leader.hpp"

#include <utility>
#include <variant>

namespace ddprun {

BenchLeader::BenchLeader(asio::io_context& context, const std::string& job)
    : links_(
          context,
          {},
          [this](Links::Event event) {
            std::visit([this](auto& what) { on(std::move(what)); }, event);
          }),
      lines_(context, lining(job)),
      timer_(context, kNever) {}

Lifelines::Options BenchLeader::lining(const std::string& job) {
  Lifelines::Options options;
  options.job = job;
  options.holders = {
      .hold_line = [](int) { return Result<void>(); },
      .hold_end = [](int) {},
      .holds_end = [](int) { return true; },
      .let_go = [](int) {}};
  options.on_event = [this](const Lifelines::Event& event) {
    if (const auto* opened = std::get_if<Lifelines::LifelineOpened>(&event)) {
      feed(RendezvousNode::LifelineOpened{.node = opened->node, .leadership = opened->leadership});
    } else if (const auto* ended = std::get_if<Lifelines::LifelineEnded>(&event)) {
      feed(RendezvousNode::LifelineEnded{.node = ended->node});
    } else if (const auto* dropped = std::get_if<Lifelines::LifelineDropped>(&event)) {
      feed(RendezvousNode::LifelineDropped{.node = dropped->node});
    }
  };
  return options;
}

Result<std::unique_ptr<BenchLeader>> BenchLeader::open(
    asio::io_context& context, RendezvousPolicy policy) {
  std::unique_ptr<BenchLeader> leader(new BenchLeader(context, policy.job));
  BenchLeader* const self = leader.get();
  StoreServerOptions serving;
  serving.endpoint = {.host = "127.0.0.1", .port = 0};
  serving.for_agents = [self](Protocol protocol, Descriptor socket, std::string received) {
    if (protocol == Protocol::kAgent)
      return self->links_.adopt(std::move(socket), std::move(received));
    self->lines_.adopt(std::move(socket), std::move(received));
  };
  auto server = StoreServer::listen(context, serving);
  if (!server) return server.error();
  leader->server_ = *std::move(server);
  policy.bootstraps = true;
  policy.master = {.host = "127.0.0.1", .port = leader->port()};
  policy.node.listens = policy.master;
  policy.endpoints = {policy.master};
  leader->node_ = std::make_unique<RendezvousNode>(std::move(policy));
  return leader;
}

asio::awaitable<void> BenchLeader::serve() {
  TaskScope tasks(co_await asio::this_coro::executor);
  tasks.spawn(server_->serve());
  tasks.spawn(links_.serve());
  tasks.spawn(lines_.serve());
  tasks.spawn(keep_time());
  feed(RendezvousNode::Begin{});
  co_await tasks.join();
}

asio::awaitable<void> BenchLeader::keep_time() {
  co_await asio::this_coro::throw_if_cancelled(false);
  for (;;) {
    timer_.expires_at(node_->next_deadline().value_or(kNever));
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) co_return;
    if (!re_armed) feed(RendezvousNode::Tick{});
  }
}

void BenchLeader::on(Links::Connected event) {
  feed(RendezvousNode::Connected{.link = event.link});
}

void BenchLeader::on(Links::Received event) {
  feed(RendezvousNode::Received{.link = event.link, .message = std::move(event.message)});
}

void BenchLeader::on(Links::Closed event) {
  feed(RendezvousNode::Closed{.link = event.link, .why = std::move(event.why.detail)});
}

void BenchLeader::feed(RendezvousNode::Event event) {
  const auto advance = [this](const RendezvousNode::Event& next) { this->advance(next); };
  if (!events_.run(std::move(event), advance)) return;
  const TimePoint next = node_->next_deadline().value_or(kNever);
  if (next < timer_.expiry()) timer_.expires_at(next);
}

void BenchLeader::advance(const RendezvousNode::Event& event) {
  effects_.clear();
  node_->apply(event, Clock::now(), effects_);
  for (const auto& effect : effects_) {
    std::visit([this](const auto& what) { perform(what); }, effect);
  }
}

void BenchLeader::workers(RoundId round, WorkersState state) {
  WorkerNews news;
  news.round = round;
  news.state = state;
  feed(RendezvousNode::Workers{.news = news});
}

void BenchLeader::perform(const effects::BeginStore& /*effect*/) {
  server_->begin_round({});
}

void BenchLeader::perform(const effects::StartWorkers& effect) {
  workers(effect.round, WorkersState::kRunning);
}

void BenchLeader::perform(const effects::StopWorkers& effect) {
  workers(effect.order.round, WorkersState::kStopped);
}

}  // namespace ddprun
