#pragma once

// The connections of one agent to the others: those it opened, and those that were opened to it and
// came in through the one port. A shell; who is called and what is said is decided in
// RendezvousNode.
//
// Runs on the thread of its io_context, and waits for all connections at once (socket_watch.hpp).
// No event is told from within call(), send(), close() or adopt(), so they may be used while one is
// being answered. Messages that are sent meanwhile, one after the other on one link, leave
// together.

#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/once_per.hpp"
#include "base/read_buffer.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/agent_link.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/secret_proof.hpp"
#include "rendezvous/dial.hpp"
#include "rendezvous/socket_watch.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

/// What one other agent, or who pretends to be one, may cost.
struct LinkLimits {
  std::size_t connections_max = 20'000;             // of those who called us
  std::size_t unsent_bytes_max = 1U << 20U;         // to one that does not read
  Duration call = std::chrono::seconds(10);         // to be connected
  Duration handshake = std::chrono::seconds(10);    // of who called us, to his hello
  Duration slow_reader = std::chrono::seconds(10);  // unsent bytes without any progress
  Duration linger = std::chrono::seconds(2);        // from close() to the other's own close
};

class Links {
 public:
  // What happened; RendezvousNode has the same events, but for the first.
  struct Resolved {  // where a call() of ours leads, before it is tried; see report_addresses()
    Link link{};
    Endpoint to;
    std::vector<Address> addresses;
  };
  struct Connected {  // the other side of a call() of ours listens, and knows the secret
    Link link{};
  };
  struct Received {
    Link link{};
    Message message;
  };
  struct Closed {  // ended or refused, by the other side, the network or a limit
    Link link{};
    Error why;
    bool is_foreign = false;  // what was called took the connection and ended it, or said
                              // something, without a message
  };
  using Event = std::variant<Resolved, Connected, Received, Closed>;
  using OnEvent = std::function<void(Event)>;

  /// With `mac`, the other side of each link proves that it knows the job's secret before it is
  /// told of. Fails with kIo if the kernel has no descriptor left.
  static Result<std::unique_ptr<Links>> open(
      asio::io_context& context, const LinkLimits& limits, OnEvent on_event, Mac mac = {});

  ~Links() = default;
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Serves until it is cancelled, then sends what was given and closes every link, within
  /// LinkLimits::linger. REQUIRES: called once.
  asio::awaitable<void> serve();

  /// Connects to `to`: Connected, or Closed, follows. REQUIRES: `link` is odd, and new.
  void call(Link link, Endpoint to);

  /// Whether calls tell where they lead, from the next one on. They do not unless told to.
  void report_addresses(bool is_wanted) { reports_addresses_ = is_wanted; }

  /// Sends `message`; does nothing on a link that is no more. While an event is told, what goes to
  /// one link leaves together: once another link is written to, or nothing more is told.
  void send(Link link, const Message& message);

  /// Sends now what send() was given. For a handler of events that is about to take long.
  void send_written();

  /// Sends what was given before, then closes. No more is told of `link`.
  void close(Link link);

  /// Takes over a connection that somebody opened to us, of which `received` has been read. It gets
  /// an even link, and is first heard of by the Received of its Hello.
  void adopt(Descriptor socket, std::string_view received);

  /// The other side of `link` as its packets name it; none if it is no more.
  std::optional<Endpoint> address_of(Link link);

  /// This side of it, in the same way.
  std::optional<Endpoint> own_address_on(Link link);

  /// Connections that are open now.
  std::size_t connections() const { return links_.size(); }

 private:
  Links(
      asio::io_context& context,
      const LinkLimits& limits,
      OnEvent on_event,
      Mac mac,
      SocketWatch watch);

  asio::awaitable<void> carry_out(Link link, Endpoint to, std::unique_ptr<Timer> limit);
  asio::awaitable<void> leave();

  std::optional<SecretProof> proof_of(SecretProof::Side side) const;
  AgentLink* find(Link link);
  AgentLink* admit(std::unique_ptr<AgentLink> link);
  void turn();
  void attend(AgentLink& link, std::uint32_t what);
  Result<void> flush(AgentLink& link) const;
  void register_interest(AgentLink& link);
  void update(AgentLink& link, const Result<void>& outcome, bool progressed);
  void end(AgentLink& link);
  void fail(AgentLink& link, const Error& why);
  void erase(AgentLink& link);
  void set_deadline(AgentLink& link, std::optional<TimePoint> deadline);
  void on_time(TimePoint now);
  void tell(Event event);
  void deliver();

  asio::any_io_executor executor_;
  LinkLimits limits_;
  OnEvent on_event_;
  Mac mac_;  // none: there is no secret
  SocketWatch watch_;
  ReadBuffer buffer_;  // what is being read, of whichever link
  std::vector<Message> messages_;

  std::unordered_map<Link, std::unique_ptr<AgentLink>> links_;
  std::uint64_t last_caller_ = 0;
  OncePer<std::string> refused_;  // hosts of strangers, and why they were turned away
  bool turned_away_ = false;      // said so once
  bool reports_addresses_ = false;

  NameService names_;
  std::unordered_map<Link, Timer*> calling_;  // each call's limit
  TaskScope calls_;

  std::optional<Link> written_to_;  // while events are told: more may follow to the same
  std::deque<Event> events_;        // not yet told
  bool will_deliver_ = false;       // they are told before anything else is waited for
};

}  // namespace ddprun
