#pragma once

// The connections and lifelines of one agent on a real port of loopback, served by a separate
// thread; its events are kept for the test to read.

#include "base/task_scope.hpp"
#include "rendezvous/auth.hpp"
#include "rendezvous/blocking_socket.hpp"
#include "rendezvous/core/frame.hpp"
#include "rendezvous/core/message_json.hpp"
#include "rendezvous/lifelines.hpp"
#include "rendezvous/links.hpp"
#include "rendezvous/store_server.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace ddprun::testing {

/// Longer than anything here takes; reached only if something is wrong.
constexpr auto kAgentPatience = std::chrono::seconds(60);

/// Events on their way from an agent's thread to the test.
template <class Event>
class EventQueue {
 public:
  void push(const Event& event) {
    const std::scoped_lock lock(mutex_);
    events_.push_back(event);
    changed_.notify_all();
  }

  /// The next one; none if none arrives in time.
  std::optional<Event> next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kAgentPatience, [this] { return !events_.empty(); })) return {};
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
};

/// A guard for lifelines: what it holds stays open until it is released.
class Holder {
 public:
  enum class Deed : std::uint8_t { kHeldLine, kHeldEnd, kLetGo };

  Lifelines::Holders holders() {
    return {
        .hold_line =
            [this](int line) {
              if (refuses_) return Result<void>(make_error(Errc::kIo, "the guard is stopped"));
              hold(line, Deed::kHeldLine);
              return Result<void>();
            },
        .hold_end = [this](int end) { hold(end, Deed::kHeldEnd); },
        .holds_end = [this](int end) { return !refuses_ && held_.contains(end); },
        .let_go =
            [this](int descriptor) {
              if (std::exchange(fails_, false)) throw std::bad_alloc();
              held_.erase(descriptor);
              deeds_.push(Deed::kLetGo);
            }};
  }

  /// Sends the goodbye on all ends that are held.
  void send_goodbye() {
    for (const auto& [name, copy] : held_) {
      EXPECT_EQ(::write(copy.get(), &kGoodbye, 1), 1);
    }
  }

  void refuse() { refuses_ = true; }
  /// The next let_go() throws, as one whose memory has run out.
  void fail_once() { fails_ = true; }
  std::optional<Deed> next() { return deeds_.next(); }

 private:
  void hold(int descriptor, Deed deed) {
    held_[descriptor] = Descriptor(::dup(descriptor));
    deeds_.push(deed);
  }

  bool refuses_ = false;
  bool fails_ = false;
  std::map<int, Descriptor> held_;  // by the number it has in the agent
  EventQueue<Deed> deeds_;
};

/// The key of an agent with this secret; "": it proves nothing.
inline AuthKey key_of(const std::string& secret) {
  return make_auth_key(secret.empty() ? AuthChoice::kNone : AuthChoice::kSecret, secret).value();
}

class RunningAgent {
 public:
  /// What an agent answers at once, on its own thread.
  using Answers = std::function<void(Links&, const Links::Event&)>;

  explicit RunningAgent(
      const LinkLimits& limits = {},
      Answers answers = {},
      const std::string& secret = {},
      bool trusts_end = true)
      : RunningAgent(limits, std::move(answers), key_of(secret), open_in_background, trusts_end) {}

  RunningAgent(
      const LinkLimits& limits,
      Answers answers,
      const AuthKey& key,
      Links::OpenKey open_key,
      bool trusts_end = true)
      : answers_(std::move(answers)),
        stop_(context_, kNever),
        links_(
            context_,
            limits,
            [this](const Links::Event& event) {
              if (answers_) answers_(links_, event);
              events_.push(event);
            },
            key,
            std::move(open_key)),
        lines_(
            context_,
            {.job = "j",
             .key = key,
             .trusts_end = trusts_end,
             .limits = {.lines_max = limits.connections_max, .handshake = limits.handshake},
             .holders = guard_.holders(),
             .on_event = [this](const Lifelines::Event& event) {
               if (handle_lines_) handle_lines_(event);
               line_events_.push(event);
             }}) {
    StoreServerOptions options;
    options.endpoint = {.host = "127.0.0.1", .port = 0};
    options.for_agents = [this](Protocol protocol, Descriptor socket, std::string received) {
      if (protocol == Protocol::kAgent) return links_.adopt(std::move(socket), std::move(received));
      lines_.adopt(std::move(socket), std::move(received));
    };
    server_ = StoreServer::listen(context_, options).value();
    asio::co_spawn(context_, serve(), [](const std::exception_ptr& thrown) {
      if (thrown) std::terminate();
    });
    thread_ = std::thread([this] {
      while (context_.run_one() > 0) {
        ++wake_ups_;
      }
    });
  }
  RunningAgent(const RunningAgent&) = delete;
  RunningAgent& operator=(const RunningAgent&) = delete;
  ~RunningAgent() {
    try {
      stop();
    } catch (const std::exception& error) {  // its thread would outlive what it serves
      std::fprintf(stderr, "an agent cannot be stopped: %s\n", error.what());
      std::abort();
    }
  }

  /// Ends in order.
  void stop() {
    if (!thread_.joinable()) return;
    asio::post(context_, [this] { stop_.cancel(); });
    thread_.join();
  }

  /// Runs `deed` on the agent's thread and waits for it.
  void run(const std::function<void(Links&)>& deed) {
    on_thread([&] { deed(links_); });
  }
  void run_lines(const std::function<void(Lifelines&, Holder&)>& deed) {
    on_thread([&] { deed(lines_, guard_); });
  }

  /// What it does with events of its lifelines, on its own thread, before the test reads them.
  void handle_lines(const std::function<void(const Lifelines::Event&)>& handle) {
    on_thread([&] { handle_lines_ = handle; });
  }

  void send(Link link, const Message& message) {
    run([&](Links& links) { links.send(link, message); });
  }
  void close(Link link) {
    run([&](Links& links) { links.close(link); });
  }
  void call(Link link, const Endpoint& to) {
    run([&](Links& links) { links.call(link, to); });
  }

  std::optional<Links::Event> next() { return events_.next(); }
  std::optional<Lifelines::Event> next_of_lines() { return line_events_.next(); }
  std::optional<Holder::Deed> next_of_front() { return guard_.next(); }

  /// The link of the next event, which must be an E.
  template <class E>
  Link next_is() {
    const auto event = next();
    const E* const is = event ? std::get_if<E>(&*event) : nullptr;
    EXPECT_NE(is, nullptr) << "event " << (event ? static_cast<int>(event->index()) : -1);
    return is != nullptr ? is->link : Link{};
  }

  /// The next event, which must be the arrival of an M.
  template <class M>
  M hears(Link* from = nullptr) {
    const auto event = next();
    const auto* const received = event ? std::get_if<Links::Received>(&*event) : nullptr;
    const M* const message = received != nullptr ? std::get_if<M>(&received->message) : nullptr;
    EXPECT_NE(message, nullptr) << "event " << (event ? static_cast<int>(event->index()) : -1);
    if (message == nullptr) return M();
    if (from != nullptr) *from = received->link;
    return *message;
  }

  /// How often its thread has woken up.
  int wake_ups() const { return wake_ups_; }

  Endpoint endpoint() const { return {.host = "127.0.0.1", .port = server_->port()}; }

 private:
  asio::awaitable<void> serve() {
    co_await asio::this_coro::throw_if_cancelled(false);
    TaskScope scope(context_.get_executor());
    scope.spawn(server_->serve());
    scope.spawn(links_.serve());
    scope.spawn(lines_.serve());
    co_await stop_.async_wait(kTuple);
    scope.cancel();
    co_await scope.join();
  }

  void on_thread(const std::function<void()>& deed) {
    std::packaged_task<void()> task(deed);
    auto done = task.get_future();
    asio::post(context_, [&task] { task(); });
    done.get();
  }

  Answers answers_;
  EventQueue<Links::Event> events_;
  std::function<void(const Lifelines::Event&)> handle_lines_;
  EventQueue<Lifelines::Event> line_events_;

  asio::io_context context_{1};
  Timer stop_;
  Links links_;
  Holder guard_;
  Lifelines lines_;
  std::unique_ptr<StoreServer> server_;
  std::atomic<int> wake_ups_ = 0;
  std::thread thread_;
};

/// A client of an agent, which sends and receives bytes.
class RawAgent {
 public:
  explicit RawAgent(
      const RunningAgent& agent, std::string_view opening = opening_of(Protocol::kAgent))
      : socket_(BlockingSocket::connect(agent.endpoint(), Clock::now() + kAgentPatience).value()) {
    say_bytes(opening);
  }

  /// Sends; the next read shows whether the peer has closed.
  void say_bytes(std::string_view bytes) {
    static_cast<void>(static_cast<bool>(socket_.send_all(bytes, Clock::now() + kAgentPatience)));
  }
  void say(const Message& message) { say_bytes(framed(encode(message))); }

  static std::string framed(std::string_view body) {
    std::string frame;
    EXPECT_TRUE(append_frame(frame, body));
    return frame;
  }

  /// The next message; none at the end.
  std::optional<Message> hear() {
    const std::string body = hear_frame();
    return body.empty() ? std::nullopt : std::optional(decode(body).value());
  }

  /// The next frame; empty at the end.
  std::string hear_frame() {
    std::array<char, 1> byte{};
    for (;;) {
      const auto got = socket_.receive_some(byte, Clock::now() + kAgentPatience);
      if (!got) return {};
      std::string_view input(byte.data(), *got);
      if (const auto body = frames_.next(input).value()) return std::string(*body);
    }
  }

  /// The next byte; 0 at the end.
  char hear_byte() {
    std::array<char, 1> byte{};
    const auto got = socket_.receive_some(byte, Clock::now() + kAgentPatience);
    return got ? byte[0] : '\0';
  }

  /// Closes with a reset instead of an orderly end.
  void reset() {
    const linger abrupt{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_LINGER, &abrupt, sizeof(abrupt));
    leave();
  }
  void leave() { socket_.release(); }
  /// Ends as leave() does, but still hears.
  void fall_silent() { EXPECT_EQ(::shutdown(socket_.native_handle(), SHUT_WR), 0); }

  /// Whether the connection ends without another message.
  bool is_closed() { return !hear().has_value(); }

 private:
  BlockingSocket socket_;
  FrameReader frames_;
};

}  // namespace ddprun::testing
