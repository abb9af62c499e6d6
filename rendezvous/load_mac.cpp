#include "rendezvous/load_mac.hpp"

#include "base/hmac.hpp"

namespace ddprun {

Result<Mac> load_mac(const std::string& secret) {
  if (secret.empty()) return Mac();
  const auto hmac = HmacSha256::load();
  if (!hmac) return with_context("the job's secret", hmac.error());
  return Mac([hmac = *hmac, secret](std::string_view text) { return hmac(secret, text); });
}

}  // namespace ddprun
