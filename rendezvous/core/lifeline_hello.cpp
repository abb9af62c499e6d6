#include "rendezvous/core/lifeline_hello.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

namespace ddprun {
namespace {

constexpr std::string_view kNonce = "nonce ";

}  // namespace

std::string line_challenge(std::string_view nonce) {
  DDPRUN_CHECK(is_nonce(nonce));
  return fmt::format("{}{}", kNonce, nonce);
}

Result<std::string> nonce_of_line(std::string_view frame) {
  const bool is_named = frame.starts_with(kNonce);
  if (is_named) frame.remove_prefix(kNonce.size());
  if (is_named && is_nonce(frame)) return std::string(frame);
  return make_error(Errc::kProtocol, "the leader does not send a nonce");
}

std::string line_proof(const Mac& mac, std::string_view nonce, const LifelineHello& hello) {
  if (!mac) return {};
  // The first token differs from those of AuthProof, so no answer to a challenge serves here. The
  // job, which may contain blanks, comes last.
  return mac(fmt::format(
      "line {} {:016x} {} {:016x} {}",
      nonce,
      static_cast<std::uint64_t>(hello.node),
      hello.leadership.term,
      static_cast<std::uint64_t>(hello.leadership.leader),
      hello.job));
}

}  // namespace ddprun
