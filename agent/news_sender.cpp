#include "agent/news_sender.hpp"

#include "base/deadline.hpp"

#include <utility>

namespace ddprun {
namespace {

/// Longer than it takes to read a worker's pipes (LastLines), unless a disk hangs.
constexpr Duration kLastLinePatience = std::chrono::milliseconds(300);

}  // namespace

void NewsSender::send(WorkerNews news) {
  sent_ = std::move(news);
  callbacks_.news(sent_);
}

void NewsSender::send_stopped(WorkerNews news) {
  held_ = std::move(news);
  if (check_.is_wanted() && end_.may_be_nodes_fault()) {
    return check_node([this](const std::string& /*unfit*/) { send_if_complete(); });
  }
  send_if_complete();
}

void NewsSender::send_if_complete() {
  if (check_.is_running() || last_line_) return;
  auto news = std::exchange(held_, std::nullopt);
  if (!news) return;
  news->unfit = unfit_;
  send(*std::move(news));
}

void NewsSender::expect_last_line(std::shared_ptr<Errand<std::string>> line) {
  last_line_ = std::move(line);
  if (last_line_) tasks_.spawn(await_last_line(last_line_));
}

/// The failure was reported at once, so that no later one overtakes it; now again with the line.
asio::awaitable<void> NewsSender::await_last_line(std::shared_ptr<Errand<std::string>> line) {
  Timer limit(co_await asio::this_coro::executor, Clock::now() + kLastLinePatience);
  const auto read = co_await line->await(limit);
  if (line != last_line_) co_return;  // it no longer matters
  last_line_.reset();
  if (read && *read && end_.failure) {
    end_.failure->last_line = TextLine{.text = **read};
    if (held_) held_->failure = end_.failure;
    if (sent_.failure) sent_.failure = end_.failure;
    callbacks_.news(sent_);
  }
  send_if_complete();
}

void NewsSender::check_node(NodeCheck::OnDone on_done) {
  check_.begin([this, on_done = std::move(on_done)](const std::string& unfit) {
    unfit_ = unfit;
    callbacks_.checked(unfit);
    on_done(unfit);
  });
}

void NewsSender::heed_order() {
  const bool restarts = end_.order && end_.order->restarts;
  if (!end_.began_here() || !restarts) last_line_.reset();
  const bool is_check_needed = check_.is_wanted() && end_.may_be_nodes_fault();
  if (held_ && !is_check_needed) abandon_check();
}

void NewsSender::stop_waiting() {
  last_line_.reset();
  abandon_check();
}

void NewsSender::abandon_check() {
  check_.abandon();
  send_if_complete();
}

}  // namespace ddprun
