#include "rendezvous/agent_link.hpp"

#include "base/check.hpp"
#include "base/exit_status.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/core/message_json.hpp"
#include "rendezvous/listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>

namespace ddprun {

AgentLink::AgentLink(Link link, Descriptor socket, std::optional<SecretProof> proof)
    : link_(link), socket_(std::move(socket)), proof_(std::move(proof)) {}

AgentLink::AgentLink(
    Link link, Descriptor socket, Endpoint called, std::optional<SecretProof> proof)
    : link_(link),
      socket_(std::move(socket)),
      called_(std::move(called)),
      is_opened_(true),  // only the caller says an opening
      proof_(std::move(proof)),
      outbox_(opening_of(Protocol::kAgent)) {
  if (proof_) DDPRUN_CHECK(append_frame(outbox_, proof_->begin()).has_value());
}

Result<bool> AgentLink::receive(std::span<char> buffer, std::vector<Message>& into) {
  const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got == 0) return make_error(Errc::kPeerLost, "it closed the connection");
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) return errno == EINTR;
    return make_error(Errc::kPeerLost, std::strerror(errno));
  }
  const auto size = static_cast<std::size_t>(got);
  const auto taken = take({buffer.data(), size}, into);
  if (!taken) return taken.error();
  return size == buffer.size();
}

Result<void> AgentLink::take(std::string_view bytes, std::vector<Message>& into) {
  if (is_ending_) return {};
  if (!is_opened_) {
    const std::size_t missing = opening_of(Protocol::kAgent).size() - opening_.size();
    opening_ += bytes.substr(0, missing);
    bytes.remove_prefix(std::min(missing, bytes.size()));
    const auto whole = check_opening(opening_);
    if (!whole) return whole.error();
    is_opened_ = *whole;
  }
  for (;;) {
    const auto body = frames_.next(bytes);
    if (!body && !was_called() && !has_spoken_) {
      return make_error(Errc::kProtocol, "it does not speak as ddprun does");
    }
    if (!body) return body.error();
    const std::optional<std::string_view>& frame = *body;
    if (!frame) return {};
    auto taken = proof_ && !proof_->is_done() ? take_proof(*proof_, *frame, into)
                                              : take_message(*frame, into);
    if (!taken) return taken;
  }
}

Result<void> AgentLink::take_proof(
    SecretProof& proof, std::string_view body, std::vector<Message>& into) {
  const auto answer = proof.answer(body);
  if (answer) return answer->empty() ? Result<void>() : append_frame(outbox_, *answer);
  if (was_called()) return answer.error();
  // Whoever was called says why he wants none of us, or is told by us what would help.
  auto said = decode(body);
  const bool is_refusal = said && std::holds_alternative<Refuse>(*said);
  Message refusal = Refuse{.job = {}, .exit_status = kExitUsage, .why = answer.error().detail};
  if (is_refusal) refusal = *std::move(said);
  complete(refusal);
  into.push_back(std::move(refusal));
  return answer.error();
}

Result<void> AgentLink::take_message(std::string_view body, std::vector<Message>& into) {
  if (was_called() && !has_spoken_ && asks_for_secret(body)) {
    return make_error(
        Errc::kProtocol,
        "the caller has a secret, and who was called has none; give every node of the job the same "
        "--secret-file");
  }
  auto message = decode(body);
  if (!message) return message.error();
  const bool is_hello = std::holds_alternative<Hello>(*message);
  const bool may_begin = is_hello || std::holds_alternative<Redirect>(*message) ||
                         std::holds_alternative<Survivor>(*message);
  const bool is_first = was_called() && !has_spoken_;
  if (is_first && !may_begin) {
    return make_error(Errc::kProtocol, "its first message is no hello");
  }
  if (is_hello && !is_first) return make_error(Errc::kProtocol, "a second hello");
  has_spoken_ = true;
  complete(*message);
  into.push_back(std::move(*message));
  return {};
}

// An agent need not know under which address others reach it: that is seen from outside. Nor does
// whoever is refused need to know by whom otherwise.
void AgentLink::complete(Message& message) const {
  const auto fill = [this](Endpoint& endpoint) {
    if (!endpoint.host.empty()) return;
    const auto caller = called_ ? std::nullopt : peer_address(socket_.get());
    if (called_) endpoint.host = called_->host;
    if (caller) endpoint.host = caller->host();
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

// Whoever came through a virtual address, such as that of a Kubernetes Service, has to learn the
// one behind it: the virtual one may lead to another machine tomorrow.
Message AgentLink::with_own_address(const Welcome& welcome) const {
  Welcome told = welcome;
  std::string& host = told.leader.listens.host;
  const auto own = host.empty() ? own_end(socket_.get()) : std::nullopt;
  const std::string told_host = own ? own->host() : host;
  const bool is_ours_alone =
      own && told_host.find('%') != std::string::npos;  // an interface's name
  if (!is_ours_alone) host = told_host;
  return told;
}

Result<void> AgentLink::add(const Message& message) {
  if (sent_ > kFrameBytesMax) outbox_.erase(0, std::exchange(sent_, 0));
  const auto* const welcome = std::get_if<Welcome>(&message);
  std::string body = encode(welcome ? with_own_address(*welcome) : message);
  // An HTTP server at the endpoint takes this for the end of a request, and answers at once.
  if (std::holds_alternative<Hello>(message)) body += kEndOfRequest;
  return append_frame(outbox_, body);
}

Result<void> AgentLink::flush(std::size_t unsent_bytes_max) {
  while (unsent() > 0) {
    const ssize_t sent =
        ::send(socket_.get(), outbox_.data() + sent_, unsent(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return make_error(Errc::kPeerLost, std::strerror(errno));
    if (sent < 0 && unsent() <= unsent_bytes_max) return {};
    if (sent < 0) {
      return make_error(Errc::kLimit, fmt::format("it has not taken {} bytes", unsent()));
    }
    sent_ += static_cast<std::size_t>(sent);
  }
  outbox_.clear();
  sent_ = 0;
  // The peer reads to the end before it closes, so that nothing of it is lost to a reset.
  if (is_ending_ && !std::exchange(is_shut_, true)) ::shutdown(socket_.get(), SHUT_WR);
  return {};
}

void AgentLink::end() {
  is_ending_ = true;
}

std::string AgentLink::peer() const {
  return called_ ? called_->to_string() : peer_of(socket_.get());
}

}  // namespace ddprun
