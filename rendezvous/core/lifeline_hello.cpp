#include "rendezvous/core/lifeline_hello.hpp"

#include <fmt/format.h>

namespace ddprun {

std::string line_proof(const Mac& mac, const LifelineHello& hello) {
  if (!mac) return {};
  // The first token differs from those of SecretProof, so no answer to a challenge serves here.
  return mac(fmt::format(
      "line {:016x} {} {:016x}",
      static_cast<std::uint64_t>(hello.node),
      hello.leadership.term,
      static_cast<std::uint64_t>(hello.leadership.leader)));
}

}  // namespace ddprun
