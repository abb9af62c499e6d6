#include "rendezvous/core/search_report.hpp"

#include "base/exit_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kQuietSearch = 5s;   // for a leader, before people are told
constexpr Duration kLostWait = 1s;  // for nodes that may be back in a moment

}  // namespace

void SearchReport::note_foreign(const Endpoint& at, bool is_foreign, TimePoint now) {
  const bool is_only_endpoint = policy_.endpoints.size() == 1 && at == policy_.endpoints.front();
  if (!is_foreign || !is_only_endpoint) {
    foreign_since_.reset();
  } else if (!foreign_since_) {
    foreign_since_ = now;
  }
}

bool SearchReport::is_endpoint_foreign(TimePoint now) const {
  return policy_.ends_at_foreign && foreign_since_ && voter_.state().obeyed.term == 0 &&
         !voter_.waits_for_another() && now >= *foreign_since_ + policy_.refusal_wait;
}

bool SearchReport::may_be_elsewhere(const Endpoint& at, TimePoint now) const {
  return at != foreign_leader_ && (policy_.endpoints.size() > 1 || may_be_old_address(now));
}

void SearchReport::report_old_address(const std::string& why, TimePoint now, Effects& out) const {
  if (!may_be_old_address(now) || stranger_since_ != now) return;
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "{}; the name may lead to an old address, so this node looks for its job there for "
          "{:.0f} s",
          why,
          to_seconds(kOldAddressWait)),
      .is_for_all = true});
}

void SearchReport::forget_loss() {
  loss_ = {};
  has_reported_loss_ = false;
}

void SearchReport::end() {
  forget_loss();
  has_reported_waiting_ = false;
}

void SearchReport::forget_survivors() {
  end();
  in_vain_.clear();
}

/// By then all that can vote have done so: all miss a silent leader within a heartbeat or two, and
/// the nodes that this node led once they have not heard it for lease + margin.
TimePoint SearchReport::reports_loss_at(TimePoint since) const {
  const TimePoint begins = std::max(since, voter_.loss_is_sure_at());
  return begins + std::max(kLostWait, voter_.leader().lease / 3);
}

/// For which nodes, until when, and what would end it.
void SearchReport::report_quorum_loss(TimePoint since, TimePoint now, Effects& out) {
  const bool is_due = !loss_.why.empty() && has_waited_long(since, now);
  if (!is_due || std::exchange(has_reported_loss_, true)) return;
  workers_.report_kill(out);
  const bool is_new = voter_.state().obeyed.term == 0;
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "{}: {}; the wait ends when {}, or with status {} in {:.0f} s",
          is_new
              ? fmt::format("job '{}' has begun before, and waits for a leader", policy_.job)
              : fmt::format("this node has waited {:.1f} s for a leader", to_seconds(now - since)),
          loss_.why,
          loss_.ends,
          kExitTryAgain,
          to_seconds(std::max(Duration::zero(), since + timeout() - now))),
      .is_for_all = true});
}

void SearchReport::report(
    const std::vector<Endpoint>& survivors, TimePoint since, TimePoint now, Effects& out) {
  report_quorum_loss(since, now, out);
  if (voter_.state().obeyed.term != 0) return;
  if (!survivors.empty() && now >= since + kLostWait && !has_reported_waiting_) {
    has_reported_waiting_ = true;
    out.emplace_back(effects::Note{
        .text = fmt::format(
            "job '{}' has begun before, as the node at {} knows; waiting until its nodes have a "
            "leader again (timeout {:.0f} s)",
            policy_.job,
            survivors.front().to_string(),
            to_seconds(policy_.join_timeout)),
        .is_for_all = true});
    return;
  }
  const bool ends_soon = policy_.ends_at_foreign && foreign_since_;  // and then says all of it
  const bool has_reported = has_reported_loss_ || ends_soon || may_be_old_address(now);
  if (now < since + kQuietSearch || has_reported) return;
  if (in_vain_.empty() || std::exchange(has_reported_waiting_, true)) return;
  std::string hint = policy_.if_unanswered;
  if (is_taken_) {
    hint =
        "another program may have that port, as ddprun says on its machine, or the node there is "
        "stopped";
  }
  if (is_answered_) hint.clear();
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "still trying to reach job '{}': {} (timeout {:.0f} s){}{}",
          policy_.job,
          in_vain_,
          to_seconds(policy_.join_timeout),
          hint.empty() ? "" : "; ",
          hint),
      .is_for_all = true});
}

/// A lost node is wanted back if fewer nodes cannot run, or if another may take its place.
Duration SearchReport::timeout() const {
  if (voter_.state().obeyed.term == 0) return policy_.join_timeout;
  const bool is_fixed = policy_.nodes.min() == policy_.nodes.max();
  const bool is_wanted_back = is_fixed || policy_.trusts_replacement;
  if (!is_wanted_back) return policy_.search_timeout;
  return policy_.regather_timeout.value_or(policy_.join_timeout);
}

std::string SearchReport::why_given_up(const std::vector<Endpoint>& survivors) const {
  const double waited_s = to_seconds(timeout());
  const bool is_new = voter_.state().obeyed.term == 0;
  if (is_new && !loss_.why.empty()) {
    return fmt::format(
        "job '{}' has begun before, and had no leader for {:.0f} s: {}",
        policy_.job,
        waited_s,
        loss_.why);
  }
  if (is_new && !survivors.empty()) {
    return fmt::format(
        "job '{}' has begun before, and its nodes, such as the one at {}, had no leader within "
        "{:.0f} s",
        policy_.job,
        survivors.front().to_string(),
        waited_s);
  }
  if (is_new) {
    return fmt::format(
        "job '{}' not found within {:.0f} s: {}; check that ddprun runs there, and that this host "
        "and port are right and reachable",
        policy_.job,
        waited_s,
        in_vain_.empty() ? "no answer came" : in_vain_);
  }
  return fmt::format(
      "{}no majority of the job's nodes could be reached within {:.0f} s{}{}",
      voter_.led_itself() ? "" : "the leader is lost, and ",
      waited_s,
      loss_.why.empty() ? "" : ": ",
      loss_.why);
}

std::string SearchReport::why_foreign() const {
  return fmt::format(
      "{} is taken by a program that is not ddprun: {}; stop it (ss -tlnp there tells which it "
      "is), or choose another port (--rdzv-endpoint, --master-port)",
      policy_.endpoints.front().to_string(),
      in_vain_);
}

}  // namespace ddprun
