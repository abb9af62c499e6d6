#pragma once

// One connection between two agents: its socket, what has come of the next frame, and what is to be
// sent. Non-blocking and without a coroutine of its own; Links calls it when its socket is ready.

#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/core/frame.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/secret_proof.hpp"
#include "rendezvous/ready_set.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class AgentLink {
 public:
  /// From somebody who called us; says who he is later. With `proof`, he proves a secret first.
  AgentLink(Link link, Descriptor socket, std::optional<SecretProof> proof);
  /// To `called`, whom we called.
  AgentLink(Link link, Descriptor socket, Endpoint called, std::optional<SecretProof> proof);

  /// Receives what is there, once, into `buffer`, and appends the messages that are complete.
  /// False: it was all. Fails, after those, when the connection is to be closed: kPeerLost at its
  /// end, kProtocol.
  Result<bool> receive(std::span<char> buffer, std::vector<Message>& into);

  /// The same for bytes that were received elsewhere.
  Result<void> take(std::string_view bytes, std::vector<Message>& into);

  /// Puts `message` behind what waits to be sent.
  Result<void> add(const Message& message);

  /// Sends what waits, as far as the peer takes it now. Fails with kPeerLost, or with kLimit if
  /// more than `unsent_bytes_max` would be left.
  Result<void> flush(std::size_t unsent_bytes_max);

  /// Nothing more is to be sent after what waits, and what comes is dropped.
  void end();

  Link link() const { return link_; }
  int socket() const { return socket_.get(); }
  std::size_t unsent() const { return outbox_.size() - sent_; }
  bool was_called() const { return !called_; }
  bool has_spoken() const { return has_spoken_; }
  /// No secret is to be proved any more.
  bool is_proved() const { return !proof_ || proof_->is_done(); }
  bool is_ending() const { return is_ending_; }

  /// Who it is, for people.
  std::string peer() const;

  // Kept here for Links, which alone changes them.
  bool is_announced = false;          // one of ours, and told of
  ReadySet::Interest registered;      // with the ReadySet
  std::optional<TimePoint> deadline;  // by which it must have gone on

 private:
  Result<void> take_proof(SecretProof& proof, std::string_view body, std::vector<Message>& into);
  Result<void> take_message(std::string_view body, std::vector<Message>& into);
  void complete(Message& message) const;
  Message with_own_address(const Welcome& welcome) const;

  Link link_;
  Descriptor socket_;
  std::optional<Endpoint> called_;
  std::string opening_;      // while it is not whole
  bool is_opened_ = false;   // it has been read
  bool has_spoken_ = false;  // a message has come
  bool is_ending_ = false;
  bool is_shut_ = false;
  std::optional<SecretProof> proof_;
  FrameReader frames_;
  std::string outbox_;
  std::size_t sent_ = 0;  // of the outbox
};

}  // namespace ddprun
