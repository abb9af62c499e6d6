#pragma once

// The one port: listening sockets, connections, and the Store behind them. A shell; what a request
// does is decided in core/store.hpp, and what a byte means in core/store_parser.hpp.
//
// Runs on the thread of its io_context, and waits for all connections at once by epoll, not through
// Asio: a wait of Asio costs more than most requests (ready_set.hpp). Each connection that is ready
// is read once and answered by one write, then the next has its turn, so none starves another. A
// connection has a deadline only until it has validated itself, and while it does not take its
// replies. If memory runs out in the work for one, that one is closed, and the others go on.

#include "base/deadline.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/line_limit.hpp"
#include "base/once_per.hpp"
#include "base/read_buffer.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/store.hpp"
#include "rendezvous/core/store_limits.hpp"
#include "rendezvous/http_sessions.hpp"
#include "rendezvous/listener.hpp"
#include "rendezvous/socket_watch.hpp"
#include "rendezvous/store_access.hpp"
#include "rendezvous/store_link.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun {

/// Takes over a connection of Protocol::kAgent or kLifeline, of which `received` has been read.
using ForAgents = std::function<void(Protocol protocol, Descriptor socket, std::string received)>;

struct StoreServerOptions {
  Endpoint endpoint;   // host "": every address, IPv6 and IPv4; port 0: any free one
  StoreAccess access;  // until the first begin_round()
  StoreLimits limits;
  ForAgents for_agents = nullptr;             // none: they are turned away
  HttpPages pages = nullptr;                  // beside /healthz; none: there are none
  std::function<void()> on_client = nullptr;  // the first of each round has validated itself
};

class StoreServer {
 public:
  /// Listens; clients can connect from here on, and are served by serve(). Fails with
  /// kInvalidArgument or kIo, naming the endpoint and what to do.
  static Result<std::unique_ptr<StoreServer>> listen(
      asio::io_context& context, const StoreServerOptions& options);

  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Listens on `endpoint` as well; fails as listen() does.
  Result<void> listen_too(const Endpoint& endpoint);

  /// The port it listens on; the first, if there are several.
  std::uint16_t port() const { return port_; }

  /// Serves until it is cancelled, then sends what it can and closes every connection with FIN.
  /// REQUIRES: called once.
  asio::awaitable<void> serve();

  /// Begins a new, empty key space, and closes every store connection of the earlier round, those
  /// included that have not said yet that they are one (R7). Agents and HTTP are left alone.
  ///
  /// `access` holds from here on.
  void begin_round(StoreAccess access);

  /// From here on `hosts` may also open store connections, until the next begin_round().
  void admit(std::set<std::string> hosts);

  /// Closes the connection of every client that waits for a key or in a barrier: what it waits for
  /// will not come.
  void close_waiting();

  /// Connections that are open now.
  std::size_t connections() const { return links_.size(); }
  const Store& store() const { return *store_; }

 private:
  using Links = std::unordered_map<Link, std::unique_ptr<StoreLink>>;
  using Listening = asio::posix::stream_descriptor;

  StoreServer(
      asio::io_context& context,
      StoreServerOptions options,
      std::vector<Descriptor> sockets,
      SocketWatch watch);

  asio::awaitable<void> accept_from(Listening& listening);

  StoreLink* admit(Descriptor socket);
  bool is_full() const { return links_.size() >= limits_.connections_max; }
  bool has_many_strangers() const;
  bool has_room();
  bool make_way();
  void expire_backlog();
  void turn();
  void attend(StoreLink& link);
  Result<void> exchange(StoreLink& link);
  template <class Work>
  bool within_memory(Link link, Work work);
  void update(StoreLink& link, const Result<void>& outcome);
  void dispatch(StoreLink& link);
  void watch_progress(StoreLink& link);
  Result<void> count_held(StoreLink& link);
  void set_deadline(StoreLink& link, std::optional<TimePoint> deadline);
  void close_with(StoreLink& link, const Error& why);
  void log_close(const StoreLink& link, const Error& why);
  void close(StoreLink& link);
  std::size_t taken_bytes() const;
  void release_memory();
  void close_all();
  void close_overdue(TimePoint now);

  // More than twelve: what was given, the sockets that listen, and the links; one loop needs them
  // all.
  asio::any_io_executor executor_;
  StoreLimits limits_;
  ForAgents for_agents_;
  std::function<void()> on_client_;
  bool has_client_ = false;  // in this round
  std::list<Listening> listening_;
  std::uint16_t port_ = 0;
  Acceptor acceptor_;
  bool turned_away_ = false;  // said so once
  LineLimit closes_;          // lines about clients that were closed

  SocketWatch watch_;
  ReadBuffer buffer_;             // what is being read, of whichever link
  std::unique_ptr<Store> store_;  // replaced by begin_round()
  StoreAccess access_;
  OncePer<std::string> refused_;  // hosts of agents that called, where no agent has a place
  Links links_;
  std::set<Link> strangers_;  // of links_: they have not said what they are; the oldest first
  std::uint64_t last_link_ = 0;
  std::size_t held_bytes_ = 0;  // of links_
  std::size_t taken_max_ = 0;   // of taken_bytes(), since memory was last released
  std::vector<Link> released_;

  TaskScope accepting_;  // for each of listening_, while it serves
  bool is_serving_ = false;
  HttpSessions http_;
};

}  // namespace ddprun
