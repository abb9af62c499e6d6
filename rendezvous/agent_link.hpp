#pragma once

// One connection between two agents: the proof that both belong to the job, then messages. Links
// decides when it is read, written and closed.

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/core/auth_proof.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/framed_connection.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class AgentLink {
 public:
  /// From a caller, which says later who it is. With `proof`, both sides prove first that they may.
  AgentLink(Link link, tcp::socket socket, std::optional<AuthProof> proof);
  /// To `called`, which we called.
  AgentLink(Link link, tcp::socket socket, Endpoint called, std::optional<AuthProof> proof);

  /// Receives once into `buffer` and appends the messages that are complete. Fails, after those,
  /// if the connection is to be closed: kPeerLost at its end, kProtocol.
  Result<void> receive(std::span<char> buffer, std::vector<Message>& into);

  /// The same for bytes that were received elsewhere.
  Result<void> take(std::string_view bytes, std::vector<Message>& into);

  /// The credential that take_key() waits for, to be opened; empty: none.
  std::string sealed_key() const { return proof_ ? proof_->sealed_key() : std::string(); }

  /// Continues the proof with the key that was in sealed_key(). Fails as receive() does, or with
  /// the error of `key`. REQUIRES: sealed_key() is not empty.
  Result<void> take_key(const Result<Mac>& key, std::vector<Message>& into);

  /// Queues `message`. Fails with kLimit if it is too large.
  Result<void> add(const Message& message);

  /// Sends what is queued, as far as the peer takes it now. Fails with kPeerLost, or kLimit if more
  /// than `unsent_bytes_max` are left.
  Result<void> flush(std::size_t unsent_bytes_max);

  /// Sends nothing more than what is queued, and drops what comes.
  void end();

  Link link() const { return link_; }
  FramedConnection& connection() { return connection_; }
  std::size_t unsent() const { return connection_.unsent(); }
  bool was_called() const { return !called_; }
  bool has_spoken() const { return has_spoken_; }
  /// MACs under the key of the node that was called; none if no proof was asked for.
  Mac mac() const { return is_proved() && proof_ ? proof_->mac() : Mac(); }
  /// No proof is outstanding.
  bool is_proved() const { return !proof_ || proof_->is_done(); }
  bool is_ending() const { return is_ending_; }

  /// Who it is, for people.
  std::string peer();

  // For Links, which alone changes them.
  bool is_announced = false;          // Connected was reported
  bool is_writing = false;            // a coroutine waits for room to send
  std::optional<TimePoint> deadline;  // for its next step: handshake, or the peer's close

 private:
  Result<void> take_proof(AuthProof& proof, std::string_view body, std::vector<Message>& into);
  Result<void> refused(const Error& why, std::vector<Message>& into);
  Result<void> take_message(std::string_view body, std::vector<Message>& into);
  void complete(Message& message);
  Message with_own_address(const Welcome& welcome);

  Link link_;
  FramedConnection connection_;
  std::optional<Endpoint> called_;
  bool has_spoken_ = false;  // a message has come
  bool is_ending_ = false;
  std::optional<AuthProof> proof_;
};

}  // namespace ddprun
