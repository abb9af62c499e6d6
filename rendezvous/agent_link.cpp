#include "rendezvous/agent_link.hpp"

#include "base/check.hpp"
#include "base/exit_status.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/core/frame.hpp"
#include "rendezvous/core/message_json.hpp"
#include "rendezvous/listener.hpp"

#include <fmt/format.h>

#include <utility>

namespace ddprun {

namespace {

Error unopened(const Error& why) {
  return make_error(
      why.code,
      fmt::format(
          "peer did not authenticate: {}; start every node as the same user, on machines with the "
          "same MUNGE key",
          why.detail));
}

}  // namespace

AgentLink::AgentLink(Link link, tcp::socket socket, std::optional<AuthProof> proof)
    : link_(link), connection_(std::move(socket), kFrameBytesMax), proof_(std::move(proof)) {}

AgentLink::AgentLink(Link link, tcp::socket socket, Endpoint called, std::optional<AuthProof> proof)
    : link_(link),
      connection_(std::move(socket), Protocol::kAgent),
      called_(std::move(called)),
      proof_(std::move(proof)) {
  if (proof_) DDPRUN_CHECK(connection_.add(proof_->begin()).has_value());
}

Result<void> AgentLink::receive(std::span<char> buffer, std::vector<Message>& into) {
  const FramedConnection::Input input = connection_.receive(buffer);
  if (!input.error) return take(input.bytes, into);
  const bool is_end = input.error == asio::error::eof;
  return make_error(Errc::kPeerLost, is_end ? "it closed the connection" : input.error.message());
}

Result<void> AgentLink::take(std::string_view bytes, std::vector<Message>& into) {
  if (is_ending_) return {};
  for (;;) {
    const auto body = connection_.next(bytes);
    if (!body && !was_called() && !has_spoken_) {
      return make_error(Errc::kProtocol, "it does not speak as ddprun does");
    }
    if (!body) return body.error();
    const std::optional<std::string_view>& frame = *body;
    if (!frame) return {};
    if (!sealed_key().empty()) return make_error(Errc::kProtocol, "it does not wait for our proof");
    auto taken = proof_ && !proof_->is_done() ? take_proof(*proof_, *frame, into)
                                              : take_message(*frame, into);
    if (!taken) return taken;
  }
}

Result<void> AgentLink::take_proof(
    AuthProof& proof, std::string_view body, std::vector<Message>& into) {
  const auto answer = proof.answer(body);
  if (answer) return answer->empty() ? Result<void>() : connection_.add(*answer);
  if (was_called()) return answer.error();
  // The called node says why it refuses us; if it does not, the reason is our own.
  auto said = decode(body);
  const bool is_refusal = said && std::holds_alternative<Refuse>(*said);
  if (!is_refusal) return refused(answer.error(), into);
  complete(*said);
  into.push_back(*std::move(said));
  return answer.error();
}

Result<void> AgentLink::take_key(const Result<Mac>& key, std::vector<Message>& into) {
  DDPRUN_CHECK(proof_.has_value());
  if (!key && !key.error().is(Errc::kProtocol)) return key.error();  // munged may answer later
  const auto answer = key ? proof_->take_key(*key) : Result<std::string>(unopened(key.error()));
  return answer ? connection_.add(*answer) : refused(answer.error(), into);
}

/// The called node does not refuse us, so we do, with a reason of our own.
Result<void> AgentLink::refused(const Error& why, std::vector<Message>& into) {
  Message refusal = Refuse{.job = {}, .exit_status = kExitUsage, .why = why.detail};
  complete(refusal);
  into.push_back(std::move(refusal));
  return why;
}

Result<void> AgentLink::take_message(std::string_view body, std::vector<Message>& into) {
  const auto method = was_called() && !has_spoken_ ? method_in_challenge(body) : std::nullopt;
  if (method) return make_error(Errc::kProtocol, auth_mismatch(*method, AuthMethod::kNone));
  auto message = decode(body);
  if (!message) return message.error();
  const bool is_hello = std::holds_alternative<Hello>(*message);
  const bool may_begin = is_hello || std::holds_alternative<Redirect>(*message) ||
                         std::holds_alternative<Survivor>(*message);
  const bool is_first = was_called() && !has_spoken_;
  if (is_first && !may_begin) {
    return make_error(Errc::kProtocol, "its first message is not a hello");
  }
  if (is_hello && !is_first) return make_error(Errc::kProtocol, "a second hello");
  has_spoken_ = true;
  complete(*message);
  into.push_back(std::move(*message));
  return {};
}

// An agent need not know the address at which others reach it: the receiver fills it in. A refusal
// gets the name of the node that sent it.
void AgentLink::complete(Message& message) {
  const auto fill = [this](Endpoint& endpoint) {
    if (!endpoint.host.empty()) return;
    const auto caller = called_ ? std::nullopt : peer_address(connection_.native_handle());
    if (called_) endpoint.host = called_->host;
    if (caller) endpoint.host = host_of(*caller);
  };
  if (auto* const hello = std::get_if<Hello>(&message)) {
    fill(hello->node.listens);
  } else if (auto* const redirect = std::get_if<Redirect>(&message)) {
    fill(redirect->leader);
  } else if (auto* const survivor = std::get_if<Survivor>(&message)) {
    fill(survivor->at);
  } else if (auto* const wait = std::get_if<Wait>(&message)) {
    fill(wait->at);
  } else if (auto* const welcome = std::get_if<Welcome>(&message)) {
    fill(welcome->leader.listens);
  } else if (auto* const offer = std::get_if<OfferRound>(&message)) {
    fill(offer->master);
  } else if (auto* const refuse = std::get_if<Refuse>(&message)) {
    if (called_) refuse->why = fmt::format("{}: {}", called_->to_string(), refuse->why);
  }
}

// A node that connected through a virtual address, such as that of a Kubernetes Service, has to
// learn the real one: the virtual one may lead to another machine later.
Message AgentLink::with_own_address(const Welcome& welcome) {
  Welcome sent = welcome;
  std::string& host = sent.leader.listens.host;
  const auto own = host.empty() ? own_end(connection_.native_handle()) : std::nullopt;
  const std::string sent_host = own ? host_of(*own) : host;
  const bool is_ours_alone =
      own && sent_host.find('%') != std::string::npos;  // an interface's name
  if (!is_ours_alone) host = sent_host;
  return sent;
}

Result<void> AgentLink::add(const Message& message) {
  const auto* const welcome = std::get_if<Welcome>(&message);
  std::string body = encode(welcome ? with_own_address(*welcome) : message);
  // An HTTP server at the endpoint takes this for the end of a request, and answers at once.
  if (std::holds_alternative<Hello>(message)) body += kEndOfRequest;
  return connection_.add(body);
}

Result<void> AgentLink::flush(std::size_t unsent_bytes_max) {
  auto sent = connection_.flush();
  if (!sent) return sent;
  if (unsent() > unsent_bytes_max) {
    return make_error(Errc::kLimit, fmt::format("it has not taken {} bytes", unsent()));
  }
  // The peer reads to the end before it closes, so that a reset does not discard anything.
  if (is_ending_ && unsent() == 0) connection_.shut();
  return {};
}

void AgentLink::end() {
  is_ending_ = true;
}

std::string AgentLink::peer() {
  return called_ ? called_->to_string() : peer_of(connection_.native_handle());
}

}  // namespace ddprun
