#include "rendezvous/core/job_end.hpp"

#include "base/check.hpp"
#include "base/exit_status.hpp"
#include "rendezvous/core/earliest_deadline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTextPatience = 3s;  // stderr may take 0.2 s to read, a slow disk longer

}  // namespace

void JobEnd::decide(Verdict verdict, Effects& out) {
  DDPRUN_CHECK(!verdict_);
  verdict_ = std::move(verdict);
  for (const auto& [incarnation, node] : roster_.nodes()) {
    send(node, VerdictNews{.verdict = *verdict_, .is_final = false}, out);
  }
}

std::optional<StopRound> JobEnd::shorten_grace(const std::string& why, const Round& round) {
  if (!notice_ || round.order.notice == 0) return std::nullopt;
  notice_->why += "; " + why;
  StopRound order;
  order.why = notice_->why;
  return order;
}

std::optional<StopRound> JobEnd::kill(const std::string& host, const Round& round) const {
  if (!is_ending() || round.order.notice == SIGKILL) return std::nullopt;
  StopRound order = round.order;
  order.why = fmt::format("{} was told to stop twice", host);
  order.notice = SIGKILL;
  return order;
}

std::optional<Verdict> JobEnd::verdict_after_notice(const Round& round) const {
  if (!notice_ || verdict_) return std::nullopt;
  const auto has_succeeded = [&round](Incarnation node) { return round.succeeded.contains(node); };
  const auto has_saved = [&](Incarnation node) {
    return has_succeeded(node) || round.saved.contains(node);
  };
  // Workers that are signalled as well have saved if they exited with 0 before they were told.
  const bool workers_get_notices = context_.policy.notice_delay > Duration();
  const bool is_success = !workers_get_notices && std::ranges::all_of(round.to_run, has_succeeded);
  if (is_success) return Verdict{.exit_status = kExitOk, .why = ""};
  if (!std::ranges::all_of(round.to_run, has_saved)) return notice_;
  return Verdict{
      .exit_status = context_.policy.notice_status,
      .why = fmt::format("{}, and all workers have saved and ended", notice_->why)};
}

void JobEnd::joined(const Node& node, bool is_new, TimePoint now, Effects& out) {
  const Incarnation incarnation = node.info.incarnation;
  if (is_new) heard_.erase(incarnation);
  if (verdict_) send(node, VerdictNews{.verdict = *verdict_, .is_final = is_final()}, out);
  // A node that comes late has as long as the others to hear it.
  if (is_final() && !context_.is_self(incarnation)) final_at_ = std::max(final_at_, now);
}

void JobEnd::heard(Incarnation node) {
  if (verdict_) heard_.insert(node);
}

bool JobEnd::has_heard(Incarnation node) const {
  return heard_.contains(node) && roster_.find(node) != nullptr;
}

void JobEnd::leaves(Incarnation node, bool again) {
  has_leavers_ = true;
  // The verdict on its earlier connection may be lost.
  if (again && !verdict_) heard_.erase(node);
}

void JobEnd::dismiss_leavers(RoundPhase phase, Effects& out) {
  if (!has_leavers_ || is_ending()) return;
  const bool round_is_over = phase == RoundPhase::kGathering || phase == RoundPhase::kOffered;
  for (const auto& [incarnation, node] : roster_.nodes()) {
    if (!node.leaving_by || !node.is_idle() || heard_.contains(incarnation)) continue;
    // The leader goes last, so that the others stop in order before they look for another.
    if (context_.is_self(incarnation) && !round_is_over) continue;
    heard_.insert(incarnation);
    send(
        node,
        VerdictNews{
            .verdict = {.exit_status = exit_status_of_signal(*node.leaving_by), .why = ""},
            .is_final = true},
        out);
  }
}

void JobEnd::spread(RoundPhase phase, TimePoint now, Effects& out) {
  if (!verdict_) return;
  const VerdictNews final{.verdict = *verdict_, .is_final = true};
  const auto has_heard = [this](Incarnation node) { return this->has_heard(node); };
  const bool may_be_final = stage_ == Stage::kNotFinal && !is_awaiting_text(now);
  if (may_be_final && lease_.majority_is(has_heard)) {
    stage_ = Stage::kFinal;
    final_at_ = now;
    for (const auto& [incarnation, node] : roster_.nodes()) {
      if (!context_.is_self(incarnation)) send(node, final, out);
    }
  }
  if (stage_ != Stage::kFinal) return;
  // The store lives until the last worker of the job has ended, and the leader until all know.
  const auto is_with_us = [this](const auto& entry) {
    return !context_.is_self(entry.first) && entry.second.link.has_value();
  };
  const bool is_stopping = phase == RoundPhase::kStopping;
  if (is_stopping) final_at_ = std::max(final_at_, now);
  const bool others_gone =
      lease_.has_seen_all() && std::ranges::none_of(roster_.nodes(), is_with_us);
  const bool is_over = now >= final_at_ + context_.policy.verdict_timeout;
  if (is_stopping || (!others_gone && !is_over)) return;
  if (may_be_searched_for(now)) return report_searching(now, out);
  const Node* const own = roster_.find(context_.self.incarnation);
  if (own == nullptr) return;
  stage_ = Stage::kDone;
  send(*own, final, out);
}

/// Not from a node that is gone.
bool JobEnd::is_awaiting_text(TimePoint now) const {
  if (!text_of_ || now >= text_until_) return false;
  const Node* const node = roster_.find(*text_of_);
  return node != nullptr && node->link.has_value();
}

void JobEnd::round_ended(TimePoint now) {
  if (text_of_) text_until_ = now + kTextPatience;
}

/// A node that fell silent and finds no leader ends with 75, as if the job had failed. If the job
/// is done, this node stays to be found for as long as that one searches.
bool JobEnd::may_be_searched_for(TimePoint now) const {
  const Node* const own = roster_.find(context_.self.incarnation);
  const bool is_told_to_stop = own != nullptr && own->is_leaving();
  const bool is_done = verdict_ && verdict_->exit_status == kExitOk;
  return is_done && !is_told_to_stop && now < roster_.lost().searching_until();
}

void JobEnd::report_searching(TimePoint now, Effects& out) {
  if (std::exchange(has_reported_searching_, true)) return;
  const LostNodes& lost = roster_.lost();
  const std::size_t searching = lost.searching() + static_cast<std::size_t>(lost.unseen());
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "all workers have exited with 0; waiting for {} lost by silence, to tell {} so if the "
          "network heals (timeout {:.0f} s; SIGTERM ends the wait)",
          searching == 1 ? "a node" : fmt::format("{} nodes", searching),
          searching == 1 ? "it" : "them",
          to_seconds(lost.searching_until() - now)),
      .is_for_all = true});
}

TimePoint JobEnd::next_deadline(TimePoint after) const {
  EarliestDeadline next(after);
  if (text_of_) next.add(text_until_);
  if (stage_ == Stage::kFinal) {
    next.add(final_at_ + context_.policy.verdict_timeout);
    next.add(roster_.lost().searching_until());
  }
  return next.at();
}

}  // namespace ddprun
