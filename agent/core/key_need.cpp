#include "agent/core/key_need.hpp"

#include "agent/core/interface_choice.hpp"

namespace ddprun {

bool is_open_to_others(const LaunchPlan& plan) {
  if (plan.rendezvous.has_others()) return true;
  const std::string& host = plan.master_address;
  return plan.shared_store && !is_loopback(host) && host != "localhost";
}

bool needs_key(const LaunchPlan& plan) {
  const AuthChoice auth = plan.rendezvous.auth;
  if (auth == AuthChoice::kAuto) return is_open_to_others(plan);
  return auth != AuthChoice::kNone && (plan.rendezvous.has_others() || plan.shared_store);
}

}  // namespace ddprun
