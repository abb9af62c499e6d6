#pragma once

// The connections of one agent to the others: those it opened, and those that were opened to it and
// came in through the one port. A shell: RendezvousNode decides which node to call and what to
// send.
//
// Runs on the thread of its io_context. No event is reported from within call(), send(), close() or
// adopt(), so they may be used while one is being handled. Messages that are sent meanwhile, one
// after the other on one link, leave together.
//
// An exception in the work for one link, such as std::bad_alloc, closes that link alone. One that
// the handler of events throws is a bug of ours, and ends the process.

#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/once_per.hpp"
#include "base/read_buffer.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/agent_link.hpp"
#include "rendezvous/auth.hpp"
#include "rendezvous/core/auth_proof.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/name_service.hpp"
#include "rendezvous/tcp.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

/// What another agent, or a program that pretends to be one, may cost.
struct LinkLimits {
  std::size_t connections_max = 20'000;  // of all; then the oldest stranger makes way for a caller
  std::size_t unsent_bytes_max = 1U << 20U;         // to one that does not read
  Duration call = std::chrono::seconds(10);         // to be connected
  Duration handshake = std::chrono::seconds(10);    // from the connection to the hello
  Duration slow_reader = std::chrono::seconds(10);  // with unsent bytes and no progress
  Duration linger = std::chrono::seconds(2);        // from close() to the peer's own close
};

class Links {
 public:
  // What happened; RendezvousNode has the same events, except the first.
  struct Resolved {  // the addresses of a call() of ours, before they are tried; see
                     // report_addresses()
    Link link{};
    Endpoint to;
    std::vector<Address> addresses;
  };
  struct Connected {  // the peer of a call() of ours listens, and has proved what it has to
    Link link{};
  };
  struct Received {
    Link link{};
    Message message;
  };
  struct Closed {  // ended or refused, by the peer, the network, a limit or an exception here
    Link link{};
    Error why;
    bool is_foreign = false;  // the peer of a call() took the connection, and ended it or sent
                              // something, without a message
  };
  using Event = std::variant<Resolved, Connected, Received, Closed>;
  using OnEvent = std::function<void(Event)>;

  /// How the key of a node that was called is opened: open_in_background().
  using OpenKey =
      std::function<asio::awaitable<Result<Mac>>(std::string credential, TimePoint deadline)>;

  /// With a method in `key`, the peer of each link has to authenticate before it is reported.
  Links(
      asio::io_context& context,
      const LinkLimits& limits,
      OnEvent on_event,
      AuthKey key = {},
      OpenKey open_key = open_in_background);

  ~Links() = default;
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Serves until it is cancelled, then sends what was given and closes every link, within
  /// LinkLimits::linger. REQUIRES: called once.
  asio::awaitable<void> serve();

  /// Connects to `to`: Connected, or Closed, follows. REQUIRES: `link` is odd, and new.
  void call(Link link, Endpoint to);

  /// Whether calls report Resolved, from the next one on. They do not at first.
  void report_addresses(bool is_wanted) { reports_addresses_ = is_wanted; }

  /// Sends `message`; does nothing on a link that is closed. While an event is handled, what goes
  /// to one link leaves together: once another link is written to, or the handler has returned.
  void send(Link link, const Message& message);

  /// Sends now what send() was given. For a handler of events that is about to take long.
  void send_written();

  /// Sends what was given before, then closes. Nothing more is reported of `link`.
  void close(Link link);

  /// Takes over a connection that somebody opened to us, of which `received` has been read. It gets
  /// an even link, and is first reported by the Received of its Hello.
  void adopt(Descriptor socket, std::string received);

  /// The remote address of `link`; none if it is closed.
  std::optional<Endpoint> address_of(Link link);

  /// The local address of `link`; none if it is closed.
  std::optional<Endpoint> own_address_on(Link link);

  /// MACs under the key of the node that was called on `link`; none if it is closed, or nodes prove
  /// nothing.
  Mac mac_of(Link link) const;

  /// Connections that are open now.
  std::size_t connections() const { return links_.size(); }

 private:
  using Shared = std::shared_ptr<AgentLink>;  // by links_ and the coroutines that serve it
  struct Call {
    Endpoint to;
    std::shared_ptr<Timer> limit;  // also of the coroutine that connects
  };

  asio::awaitable<void> contain(Link link, asio::awaitable<void> task);
  asio::awaitable<void> carry_out(Link link, Endpoint to, std::shared_ptr<Timer> limit);
  asio::awaitable<void> serve(Shared link, std::string received);
  asio::awaitable<void> open_key_of(Shared link);
  asio::awaitable<void> write_rest(Shared link);
  asio::awaitable<void> deliver_soon();
  asio::awaitable<void> leave();

  std::optional<AuthProof> proof_of(AuthProof::Side side) const;
  Shared find(Link link) const;
  void flush(const Shared& link);
  void update(const Shared& link, const Result<void>& outcome);
  void end(const Shared& link);
  bool has_room();
  void fail(const Shared& link, const Error& why);
  void abandon(Link link, const std::exception& thrown) noexcept;
  void erase(const Shared& link);
  void enqueue(Event event);
  void deliver() noexcept;

  // More than twelve: they are of three kinds, and each coroutine needs all of these.
  asio::any_io_executor executor_;
  LinkLimits limits_;
  OnEvent on_event_;
  AuthKey key_;
  OpenKey open_key_;
  ReadBuffer buffer_;  // what is being read, of whichever link
  NameService names_;
  OncePer<std::string> refused_;  // hosts of strangers, and why calls failed

  boost::unordered_flat_map<Link, Shared> links_;  // found for each message: one cache line
  std::set<Link> strangers_;  // of links_: callers without a message so far; the oldest first
  std::unordered_map<Link, Call> calling_;  // not yet connected
  std::uint64_t last_caller_ = 0;
  bool turned_away_ = false;  // it was logged
  bool reports_addresses_ = false;
  TaskScope tasks_;   // calls and links
  Timer all_closed_;  // cancelled when links_ has become empty

  std::deque<Event> events_;        // not yet reported
  std::vector<Message> messages_;   // received, not yet among events_
  std::optional<Link> written_to_;  // while events are handled: more may follow to the same
  bool is_delivering_ = false;      // an event is being handled
};

}  // namespace ddprun
