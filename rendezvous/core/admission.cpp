#include "rendezvous/core/admission.hpp"

#include "base/exit_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun {
namespace {

/// The host of a node, and its Slurm step if that of `other` is another one.
std::string where(const NodeInfo& node, const NodeInfo& other) {
  const std::string& step = node.workload.step;
  if (step.empty() || step == other.workload.step) return node.host;
  return fmt::format("{} in Slurm step {}", node.host, step);
}

/// What a node runs that `other` does not, for people: "train.py (on n0: train.py --lr 1)".
std::string spelled(const NodeInfo& node, const NodeInfo& other) {
  const Workload& workload = node.workload;
  const std::string role = workload.role == other.workload.role
                               ? std::string()
                               : fmt::format(" with --role {}", workload.role);
  return fmt::format(
      "{}{} (on {}: {})", workload.program, role, where(node, other), workload.command);
}

}  // namespace

std::optional<Refuse> Admission::objection(const Hello& hello) const {
  const auto refuse = [this](std::string why) {
    return Refuse{
        .job = policy_.job,
        .exit_status = kExitUsage,
        .why = std::move(why),
        .instance = {},
        .is_stranger = true};
  };
  const Workload& there = hello.node.workload;
  const Workload& here = policy_.node.workload;
  if (hello.job != policy_.job) {
    if (!there.step.empty() && !here.step.empty() && there.step != here.step) {
      return refuse(fmt::format(
          "job '{}' of Slurm step {} runs there (on {}), not '{}' of step {}; give another "
          "endpoint, or, for one job of both steps, --nnodes for both together and the same "
          "--rdzv-id",
          policy_.job,
          here.step,
          policy_.node.host,
          hello.job,
          there.step));
    }
    return refuse(fmt::format(
        "job '{}' runs there (on {}), not '{}'; give another endpoint, or the same --rdzv-id",
        policy_.job,
        policy_.node.host,
        hello.job));
  }
  if (are_separate_steps(there, here)) {
    return refuse(fmt::format(
        "job '{}' of Slurm step {} runs there (on {}), and has all its nodes in that step, as step "
        "{} has; give another endpoint or --rdzv-id, or, for one job of both steps, --nnodes for "
        "both together",
        policy_.job,
        here.step,
        policy_.node.host,
        there.step));
  }
  if (is_same_job(there, here)) return std::nullopt;
  return refuse(fmt::format(
      "job '{}' of {} runs there, not {}; give a second job another --rdzv-endpoint (port), or all "
      "nodes of one job the same program and --role",
      policy_.job,
      spelled(policy_.node, hello.node),
      spelled(hello.node, policy_.node)));
}

std::optional<Refuse> Admission::objection_to_flags(const Hello& hello, Role role) const {
  const auto differs = [&](const std::string& there, const std::string& here) {
    return Refuse{
        .job = policy_.job,
        .exit_status = kExitUsage,
        .why = fmt::format(
            "{} on {}, but {} on {}{}; give the same on every node",
            there,
            where(hello.node, policy_.node),
            here,
            role == Role::kFollows ? "" : "the leader ",
            where(policy_.node, hello.node))};
  };
  if (hello.nodes_min != policy_.nodes.min() || hello.nodes_max != policy_.nodes.max()) {
    return differs(
        fmt::format("--nnodes {}:{}", hello.nodes_min, hello.nodes_max),
        fmt::format("{}:{}", policy_.nodes.min(), policy_.nodes.max()));
  }
  if (hello.max_restarts != policy_.max_restarts) {
    return differs(
        fmt::format("--max-restarts {}", hello.max_restarts),
        fmt::format("{}", policy_.max_restarts));
  }
  if (hello.needs_progress != policy_.needs_progress) {
    const auto spelled_policy = [](bool needs_progress) {
      return fmt::format("--restart-policy {}", needs_progress ? "progress" : "always");
    };
    return differs(spelled_policy(hello.needs_progress), spelled_policy(policy_.needs_progress));
  }
  if (hello.lease != policy_.lease) {
    return differs(
        fmt::format("--lease {}", to_seconds(hello.lease)),
        fmt::format("{}", to_seconds(policy_.lease)));
  }
  if (hello.has_fence != policy_.has_fence) {
    const auto spelled_fence = [](bool has) { return has ? "--fence-dir" : "no --fence-dir"; };
    return differs(spelled_fence(hello.has_fence), spelled_fence(policy_.has_fence));
  }
  if (hello.trusts_replacement != policy_.trusts_replacement) {
    const auto spelled_trust = [](bool is_on) {
      return fmt::format("--trust-replacement={}", is_on ? "on" : "off");
    };
    return differs(
        spelled_trust(hello.trusts_replacement), spelled_trust(policy_.trusts_replacement));
  }
  return std::nullopt;
}

bool Admission::refuse(Link link, const Hello& hello, Refuse why, Role role, Effects& out) {
  const bool is_first = refused_.is_first(hello.node.incarnation);
  // Once a job runs, people need not hear which node mistook it for another one.
  const bool is_gathering = role == Role::kGathers;
  if (is_first) {
    out.emplace_back(effects::Note{
        .text = fmt::format(
            "{} of job '{}' called here and was refused: {}", hello.node.host, hello.job, why.why),
        .is_for_all = policy_.cannot_host.empty() && (!why.is_stranger || is_gathering)});
  }
  out.emplace_back(effects::Send{.to = link, .message = std::move(why)});
  out.emplace_back(effects::Close{.link = link});
  return is_first;
}

/// It says nothing to other callers: this port is known by its number alone, and they may have come
/// to it in search of a job of their own.
void Admission::report_that_it_cannot_host(Link link, const Hello& hello, Effects& out) {
  const bool is_check = refuses_until_ && !policy_.endpoints.empty() &&
                        hello.checks_port == policy_.endpoints.front().port;
  if (!is_check || hello.job != policy_.job || objection(hello)) {
    out.emplace_back(effects::Close{.link = link});
    return;
  }
  Refuse no{
      .job = policy_.job,
      .exit_status = kExitTryAgain,
      .why = fmt::format("{}: {}", policy_.node.host, policy_.cannot_host)};
  if (refuse(link, hello, std::move(no), Role::kFollows, out)) ++refused_nodes_;
}

void Admission::begin_to_refuse_all(TimePoint now, Effects& out) {
  refuses_until_ = now + policy_.refusal_wait;
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "{}; this node ends with {}, once the others of the job know (within {:.0f} "
          "s)",
          policy_.cannot_host,
          kExitTryAgain,
          to_seconds(policy_.refusal_wait)),
      .is_for_all = true});
}

void Admission::consider_end(TimePoint now, Effects& out) const {
  const int others = std::max(policy_.expected, policy_.nodes.max()) - 1;
  const bool are_all_refused = refused_nodes_ >= others;
  if (now < refuses_until() && !are_all_refused) return;
  out.emplace_back(effects::Finish{.exit_status = kExitTryAgain, .why = {}});
}

}  // namespace ddprun
