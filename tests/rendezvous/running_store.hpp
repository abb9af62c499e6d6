#pragma once

// A real StoreServer on a free port of loopback, served by a separate thread, and raw clients.

#include "base/task_scope.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/blocking_socket.hpp"
#include "rendezvous/store_server.hpp"
#include "tests/rendezvous/store_world.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <string>
#include <thread>

#include <sys/socket.h>

namespace ddprun::testing {

/// Longer than anything here takes; reached only if something is wrong.
constexpr auto kPatience = std::chrono::seconds(60);

class RunningStore {
 public:
  explicit RunningStore(const StoreLimits& limits = {}) : RunningStore(with(limits)) {}

  /// With any endpoint, on a free port of loopback.
  explicit RunningStore(StoreServerOptions options)
      : stop_(context_, kNever),
        server_(StoreServer::listen(context_, on_loopback(std::move(options))).value()) {
    asio::co_spawn(context_, serve(), [](const std::exception_ptr& thrown) {
      if (thrown) std::terminate();
    });
    thread_ = std::thread([this] { context_.run(); });
  }
  RunningStore(const RunningStore&) = delete;
  RunningStore& operator=(const RunningStore&) = delete;
  ~RunningStore() {
    try {
      stop();
    } catch (const std::exception& error) {  // its thread would outlive what it serves
      std::fprintf(stderr, "a store cannot be stopped: %s\n", error.what());
      std::abort();
    }
  }

  /// Ends serve() in order.
  void stop() {
    if (!thread_.joinable()) return;
    asio::post(context_, [this] { stop_.cancel(); });
    thread_.join();
  }

  /// Runs `deed` on the server's thread and waits for its result.
  template <class Deed>
  auto ask(Deed deed) {
    std::packaged_task<decltype(deed(*server_))()> task([&] { return deed(*server_); });
    auto result = task.get_future();
    asio::post(context_, [&task] { task(); });
    return result.get();
  }

  Endpoint endpoint() const { return {.host = "127.0.0.1", .port = server_->port()}; }

 private:
  static StoreServerOptions with(const StoreLimits& limits) {
    StoreServerOptions options;
    options.limits = limits;
    return options;
  }
  static StoreServerOptions on_loopback(StoreServerOptions options) {
    options.endpoint = {.host = "127.0.0.1", .port = 0};
    return options;
  }

  asio::awaitable<void> serve() {
    TaskScope scope(context_.get_executor());
    scope.spawn(server_->serve());
    co_await stop_.async_wait(kTuple);
    scope.cancel();
    co_await scope.join();
  }

  asio::io_context context_{1};
  Timer stop_;
  std::unique_ptr<StoreServer> server_;
  std::thread thread_;
};

/// One connection that sends and receives bytes.
class RawClient {
 public:
  /// Connects and sends `opening`.
  explicit RawClient(const RunningStore& store, std::string_view opening = validate())
      : socket_(BlockingSocket::connect(store.endpoint(), Clock::now() + kPatience).value()) {
    say(opening);
  }

  /// The same from `host`, an address of this machine.
  RawClient(const RunningStore& store, const std::string& host, std::string_view opening)
      : socket_(connect_from(host, store.endpoint())) {
    say(opening);
  }

  /// Sends; the next read shows whether the peer has closed.
  void say(std::string_view bytes) {
    static_cast<void>(static_cast<bool>(socket_.send_all(bytes, Clock::now() + kPatience)));
  }

  /// The next `size` bytes; fewer if the connection ends before.
  std::string hear(std::size_t size) {
    std::string heard(size, '\0');
    std::size_t have = 0;
    while (have < size) {
      const auto got =
          socket_.receive_some(std::span(heard).subspan(have), Clock::now() + kPatience);
      if (!got) break;
      have += *got;
    }
    heard.resize(have);
    return heard;
  }

  std::string ask(std::string_view bytes, std::size_t reply_size) {
    say(bytes);
    return hear(reply_size);
  }

  /// Whether the connection ends without another byte.
  bool is_closed() {
    std::array<char, 1> byte{};
    const auto got = socket_.receive_some(byte, Clock::now() + kPatience);
    return !got && got.error().is(Errc::kPeerLost);
  }

  /// Whether only the reply to this PING is still to come.
  bool has_heard_all() { return ask(ping(424'242), 4) == u32(424'242); }

  void end_sending() { ::shutdown(socket_.native_handle(), SHUT_WR); }

  /// Closes with a reset instead of an orderly end.
  void reset() {
    const linger abrupt{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_LINGER, &abrupt, sizeof(abrupt));
    leave();
  }
  void leave() { socket_.release(); }

 private:
  static Descriptor connect_from(const std::string& host, const Endpoint& endpoint) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Address from = numeric_address({.host = host, .port = 0}).value();
    const Address to = numeric_address(endpoint).value();
    EXPECT_EQ(::bind(socket.get(), from.data(), static_cast<socklen_t>(from.size())), 0);
    EXPECT_EQ(::connect(socket.get(), to.data(), static_cast<socklen_t>(to.size())), 0);
    return socket;
  }

  BlockingSocket socket_;
};

}  // namespace ddprun::testing
