#pragma once

// One connection of the one port: its socket, what it has said so far and what it is to be sent.
// Non-blocking and without a coroutine of its own; StoreServer calls it when its socket is ready.

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "rendezvous/core/frame.hpp"
#include "rendezvous/core/store.hpp"
#include "rendezvous/core/store_parser.hpp"
#include "rendezvous/core/store_replies.hpp"
#include "rendezvous/ready_set.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class StoreLink {
 public:
  StoreLink(Link link, Descriptor socket, const StoreLimits& limits);

  /// Receives what is there, at most twice, into `buffer` (and a value's own memory) and lets
  /// `store` carry out what is complete. Appends to `released` the links that this woke. Fails when
  /// the connection is to be closed.
  Result<void> receive(std::span<char> buffer, Store& store, std::vector<Link>& released);

  /// Resumes what was received but not carried out, because too much was unsent.
  Result<void> resume(Store& store, std::vector<Link>& released);

  /// Sends as much as the peer takes. Fails with kPeerLost when it takes no more for ever.
  Result<void> send();

  /// Says that this link's WAIT or BARRIER is over.
  void stop_waiting() { replies_.put_u8(kStopWaiting); }

  /// Nothing more comes and nothing more is to be sent.
  bool finished() const {
    return ended_ && replies_.unsent() == 0 && (backlog_.empty() || protocol_ != Protocol::kStore);
  }

  /// Bytes of replies that the peer has not taken.
  std::size_t unsent() const { return replies_.unsent(); }

  /// What requests and replies in progress take in memory.
  std::size_t held_bytes() const {
    return parser_.held_bytes() + replies_.held_bytes() + backlog_.size();
  }

  /// What to wait for now.
  ReadySet::Interest interest() const;

  /// The stream ends after what is still to be received.
  void expect_end() { end_expected_ = true; }

  /// Whether it could continue at once, and only lets the others have their turn: its socket may
  /// hold more than the last read took, or what was received can be carried out further.
  bool is_unfinished() const;

  /// From here on it must not use the store: closed, with `why`, when it says that it wants to.
  void bar(std::string_view why) { barred_ = why; }

  /// Lets no more be sent, so that the peer sees an orderly end.
  void shut();

  /// The same after a last try to send what the kernel has not taken.
  void send_and_shut() {
    static_cast<void>(send());
    shut();
  }

  /// Which protocol the peer speaks; kUndecided until enough has come.
  Protocol protocol() const { return protocol_; }

  /// Gives the socket away, with what was read from it, to the part that speaks that protocol.
  struct Handover {
    Descriptor socket;
    std::string received;
  };
  Handover hand_over();

  Link link() const { return link_; }
  int socket() const { return socket_.get(); }
  bool validated() const { return parser_.validated(); }
  std::string peer() const;

  // Kept here for StoreServer, which alone changes them.
  ReadySet::Interest registered;      // with the ReadySet
  std::optional<TimePoint> deadline;  // by which it must have made progress
  bool greeted = false;               // validated, and seen to be
  bool progressed = false;            // took replies since this was last cleared
  std::size_t counted_bytes = 0;      // of held_bytes(), in the sum of all links

 private:
  Result<std::size_t> receive_some(
      std::span<char> buffer, Store& store, std::vector<Link>& released);
  bool is_held_up() const { return protocol_ == Protocol::kStore && !backlog_.empty(); }
  Result<void> take(std::string_view input, Store& store, std::vector<Link>& released);
  Result<void> carry_out(std::string_view input, Store& store, std::vector<Link>& released);

  // More than twelve, with those above: either side may stop at any time, and these say where.
  Link link_;
  Descriptor socket_;
  const StoreLimits& limits_;
  Protocol protocol_ = Protocol::kUndecided;
  std::string barred_;   // why it must not use the store; empty: it may
  bool ended_ = false;   // the peer sends no more
  bool unread_ = false;  // the last read was as large as it could be
  bool end_expected_ = false;
  std::string backlog_;  // received; while undecided, or not yet carried out
  StoreParser parser_;
  StoreReplies replies_;
};

}  // namespace ddprun
