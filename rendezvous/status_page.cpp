#include "rendezvous/status_page.hpp"

#include "rendezvous/core/job_status.hpp"
#include "rendezvous/core/status.hpp"
#include "rendezvous/core/status_proof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun {

HttpPage status_page(
    const RendezvousNode& node,
    std::string version,
    const std::vector<StepReport>& own_steps,
    TimePoint now) {
  HttpPage page;
  if (const Coordinator* const coordinator = node.coordinator()) {
    page.content_type = "application/json";
    page.body = page_body(
        to_json(job_status(node.policy(), *coordinator, std::move(version), own_steps, now)));
    return page;
  }
  page.content_type = "text/plain";
  if (const auto known = node.member().leader(); known && !known->leader.host.empty()) {
    page.status = 307;
    page.location = fmt::format("http://{}/status", known->leader.to_string());
    page.body = page_body(fmt::format("the leader is {}\n", known->leader.to_string()));
    return page;
  }
  page.status = 503;
  const QuorumLoss& loss = node.member().loss();
  std::string text = fmt::format("this node of job '{}' knows of no leader now", node.policy().job);
  if (!loss.why.empty()) text += fmt::format(": {}; it waits until {}", loss.why, loss.ends);
  page.body = page_body(text + '\n');
  return page;
}

HttpPage StatusPages::page_for(const AuthKey& key, std::string_view authorization, TimePoint now) {
  const bool is_open = key.method == AuthMethod::kNone;
  if (is_open || is_authorized(key, authorization, now)) return page(now);
  HttpPage shown = public_page(now);
  shown.challenge = challenge_header(key, now);
  return shown;
}

HttpPage StatusPages::public_page(TimePoint now) const {
  constexpr int kUnauthorized = 401;
  const Coordinator* const coordinator = node_->coordinator();
  if (coordinator == nullptr) {
    const HttpPage whole = status_page(*node_, version_, {}, now);
    const bool has_leader = whole.location.has_value();
    return {
        .content_type = "text/plain",
        .body = page_body(
            has_leader ? "this node does not lead; the job's user sees who does by: ddpctl status "
                         "HOST:PORT\n"
                       : "this node knows of no leader now\n"),
        .status = has_leader ? kUnauthorized : whole.status};
  }
  const RendezvousPolicy& policy = node_->policy();
  const PublicStatus status{
      .state = job_state(*coordinator, now),
      .is_one_node = policy.nodes.max() == 1,
      .hint = "the job's user sees the rest by: ddpctl status HOST:PORT"};
  return {.content_type = "application/json", .body = page_body(to_json(status))};
}

HttpPage StatusPages::page(TimePoint now) {
  const Coordinator* const coordinator = node_->coordinator();
  if (coordinator == nullptr) return status_page(*node_, version_, {}, now);  // a line of text
  constexpr Duration kOldest = std::chrono::seconds(1);  // of a job with a long lease
  const Duration interval = heartbeat_interval(node_->policy().lease, coordinator->nodes().size());
  const auto* const round = coordinator->round();
  const Stage stage{
      .term = coordinator->term(),
      .round = round != nullptr ? round->id : RoundId(),
      .phase = coordinator->phase(),
      .has_verdict = coordinator->verdict().has_value()};
  const bool is_new =
      made_ && made_->stage == stage && now - made_->at < std::min(interval, kOldest);
  if (!is_new) {
    made_ = {.at = now, .stage = stage, .page = status_page(*node_, version_, own_steps_(), now)};
  }
  return made_->page;
}

}  // namespace ddprun
