#pragma once

// Admission: which callers are refused, and what they and people are told. A caller is refused if
// it belongs to another job, or has other values of the flags that must be the same on every node.
// If this node cannot listen at the endpoint, it takes no caller, and ends once all are told.

#include "base/once_per.hpp"
#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"

#include <optional>

namespace ddprun {

class Admission {
 public:
  /// What this node does for the job at the moment.
  enum class Role : std::uint8_t { kFollows, kGathers, kLeads };

  /// `policy` outlives it.
  explicit Admission(const RendezvousPolicy& policy) : policy_(policy) {}

  /// Why the caller belongs to another job; none: it does not.
  std::optional<Refuse> objection(const Hello& hello) const;
  /// Why a caller of this job cannot take part: its flags differ.
  std::optional<Refuse> objection_to_flags(const Hello& hello, Role role) const;
  /// Yields whether it is the first time: the caller may try again for a while. Role::kGathers: a
  /// leader before its first round.
  bool refuse(Link link, const Hello& hello, Refuse why, Role role, Effects& out);

  // This node cannot listen at the endpoint. ---------------------------------------------------

  /// From now on it neither leads nor calls any node.
  void begin_to_refuse_all(TimePoint now, Effects& out);
  bool refuses_all() const { return refuses_until_.has_value(); }
  /// Answers a call at the port that is known by its number alone.
  void report_that_it_cannot_host(Link link, const Hello& hello, Effects& out);
  /// Ends this node once all the others are told, or those that are left are too late. REQUIRES:
  /// refuses_all().
  void consider_end(TimePoint now, Effects& out) const;
  /// As above.
  TimePoint refuses_until() const { return refuses_until_.value_or(kNever); }

 private:
  const RendezvousPolicy& policy_;
  OncePer<Incarnation> refused_;  // nodes that people were told of
  std::optional<TimePoint> refuses_until_;
  int refused_nodes_ = 0;  // nodes of this job
};

}  // namespace ddprun
