#include "agent/own_key.hpp"

#include "agent/core/key_need.hpp"
#include "base/log.hpp"
#include "base/time.hpp"
#include "rendezvous/auth.hpp"

#include <fmt/format.h>

#include <utility>

#include <unistd.h>

namespace ddprun {
namespace {

constexpr Duration kAutoPatience = std::chrono::seconds(1);
constexpr Duration kPatience = std::chrono::seconds(10);

Error explained(const Error& why, AuthChoice choice) {
  if (choice != AuthChoice::kMunge) return why;
  return with_context(
      "--auth 'munge'",
      make_error(
          why.code,
          fmt::format(
              "{}; see that munged runs on this machine, or give --secret-file", why.detail)));
}

}  // namespace

Result<OwnKey> OwnKey::begin(const LaunchPlan& plan) {
  if (!needs_key(plan)) return OwnKey(plan, nullptr);
  auto making = Errand<AuthKey>::begin(
      "cannot authenticate nodes",
      [choice = plan.rendezvous.auth, secret = plan.rendezvous.secret] {
        return make_auth_key(choice, secret);
      });
  if (!making) return making.error();
  return OwnKey(plan, *std::move(making));
}

asio::awaitable<void> OwnKey::wait(TaskScope& all) {
  if (making_) {
    const RendezvousPlan& rendezvous = plan_->rendezvous;
    const bool may_do_without = rendezvous.auth == AuthChoice::kAuto && rendezvous.secret.empty();
    const Duration patience = may_do_without ? kAutoPatience : kPatience;
    Timer limit(co_await asio::this_coro::executor, Clock::now() + patience);
    made_ = co_await making_->await(limit);
    const bool is_late = !made_ && Clock::now() >= limit.expiry();  // else it was cancelled
    if (is_late && may_do_without) made_ = AuthKey();
    if (is_late && !may_do_without) {
      made_ =
          make_error(Errc::kTimedOut, fmt::format("no answer within {} s", to_seconds(patience)));
    }
    if (made_ && !*made_) made_ = explained(made_->error(), rendezvous.auth);
  } else {
    made_ = AuthKey();
  }
  all.cancel();
}

void report_if_open(const LaunchPlan& plan, const AuthKey& key, std::uint16_t port) {
  const bool is_chosen = plan.rendezvous.auth != AuthChoice::kAuto;
  if (is_chosen || key.method != AuthMethod::kNone || !is_open_to_others(plan)) return;
  const bool has_reader = !plan.slurm_step.empty() || ::isatty(STDERR_FILENO) == 1;
  spdlog::log(
      has_reader ? spdlog::level::warn : spdlog::level::info,
      "MUNGE does not answer here and no secret is given, so whoever can connect to port {} can "
      "join or end this job; give --secret-file, or --auth none to hide this line",
      port);
}

}  // namespace ddprun
