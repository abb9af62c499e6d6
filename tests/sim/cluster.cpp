#include "tests/sim/cluster.hpp"

#include "base/exit_status.hpp"
#include "rendezvous/core/quorum.hpp"
#include "tests/sim/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

namespace ddprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr auto kGrace = 5s;

Endpoint endpoint_of(int node) {
  return {.host = fmt::format("n{}", node), .port = 1};
}

FailureNews ended_by_term() {
  FailureNews failure;
  failure.pid = 1;
  failure.how = "was ended by SIGTERM";
  failure.exit_status = 143;
  failure.signal = 15;
  return failure;
}

}  // namespace

Cluster::Cluster(World& world, Setting setting)
    : world_(world), setting_(setting), network_(world, setting.nodes), nodes_(at(setting.nodes)) {
  for (Node& node : nodes_) {
    node.rate = 1 + 0.01 * (world_.roll(-100, 100) / 100.0);
  }
}

std::optional<int> Cluster::twin(int node) const {
  const int last = setting_.nodes - 1;
  if (setting_.twin_of && node == last) return setting_.twin_of;
  if (setting_.twin_of && node == *setting_.twin_of) return last;
  return std::nullopt;
}

// A node's own clock runs a little faster or slower, and starts at another time.
TimePoint Cluster::local(const Node& node, TimePoint at) const {
  const double since = static_cast<double>(at.time_since_epoch().count()) * node.rate;
  return TimePoint(Duration(static_cast<Duration::rep>(since)));
}

TimePoint Cluster::global(const Node& node, TimePoint at) const {
  if (at == kNever) return kNever;
  const double since = static_cast<double>(at.time_since_epoch().count()) / node.rate;
  return TimePoint(Duration(static_cast<Duration::rep>(since)));
}

void Cluster::note(int node, const std::string& text) {
  if (!keeps_log) return;
  log_.push_back(
      fmt::format("{:9.4f} n{} {}", to_seconds(world_.now() - TimePoint(1h)), node, text));
}

std::string Cluster::name(Incarnation incarnation) const {
  for (int node = 0; node < setting_.nodes; ++node) {
    const auto& one = nodes_[at(node)].rendezvous;
    if (one && one->member().node().incarnation == incarnation) return fmt::format("n{}", node);
  }
  return "one that is gone";
}

void Cluster::violated(const std::string& rule, const std::string& what) {
  violations_.push_back(
      fmt::format("{:.4f} {} {}", to_seconds(world_.now() - TimePoint(1h)), rule, what));
  note(-1, "VIOLATED " + rule + " " + what);
}

// Agents. --------------------------------------------------------------------------------------

void Cluster::start(int index) {
  Node& node = nodes_[at(index)];
  // A new incarnation waits until the guard of the previous one has ended.
  if (node.agent_up || node.guard_up || node.runs || !network_.is_up(index)) return;
  ++node.life;
  node.agent_up = node.guard_up = true;
  node.frozen = false;
  node.missed.clear();
  node.acts_left = -1;
  node.tick_at = kNever;
  node.lease_until = {};
  node.round = {};
  node.up_since = world_.now();
  node.listens_since = world_.now();
  node.overslept_since = kNever;
  node.unled_since = kNever;
  node.began = {};
  node.ran.clear();
  RendezvousPolicy policy;
  policy.job = "job";
  std::uint64_t incarnation = world_.number() | 1U;
  while (!incarnations_.insert(incarnation).second)
    ++incarnation;
  const int rank = twin(index) ? *setting_.twin_of : index;
  const std::optional<int> wish = setting_.wishes_for_rank_0 ? std::optional(0) : std::nullopt;
  policy.node = {
      .incarnation = Incarnation{incarnation},
      .host = endpoint_of(index).host,
      .listens = endpoint_of(index),
      .node_rank = setting_.has_ranks ? std::optional(rank) : wish,
      .workers = 1 + index % 2,
      .machine =
          {.boot = fmt::format("boot{}-{}", index, setting_.moves ? node.life : node.boots),
           .id = fmt::format("m{}-{}", index, setting_.moves ? node.life : 0)},
      .workload = {}};
  policy.ranks_are_places = setting_.has_ranks;
  policy.nodes = setting_.range;
  policy.max_restarts = setting_.max_restarts;
  policy.counts_failures = setting_.unfit_percent > 0;
  policy.has_own_console = setting_.has_own_console;
  policy.notice_status = kSavedStatus;
  policy.notice_delay = 200ms;
  policy.spares = true;
  policy.bootstraps = index == 0;  // whatever it forgot
  policy.bootstrapped_ms = (world_.now() + world_.between(-300ms, 300ms)).time_since_epoch() / 1ms;
  policy.trusts_replacement = setting_.trusts_replacement;
  policy.has_fence = setting_.has_fence;
  policy.endpoints = {endpoint_of(0)};
  policy.master = endpoint_of(index);
  policy.lease = setting_.lease;
  policy.join_timeout = 60s;
  policy.last_call = setting_.last_call;
  policy.seed = world_.number();
  node.rendezvous = std::make_unique<RendezvousNode>(std::move(policy));
  note(index, fmt::format("starts, incarnation {:x}", incarnation));
  feed(index, RendezvousNode::Begin{.unfit = check(index)});
}

void Cluster::feed(int index, const RendezvousNode::Event& event) {
  Node& node = nodes_[at(index)];
  if (!node.agent_up) return;
  if (node.frozen) {
    node.missed.push_back(event);
    return;
  }
  if (const auto* opened = std::get_if<RendezvousNode::LifelineOpened>(&event))
    keep(index, *opened);
  // Effects never cause anything at once: all that they cause happens later.
  Effects effects = std::exchange(effects_, {});
  const Incarnation before = node.rendezvous->member().node().incarnation;
  const Incarnation instance = instance_of(index);
  const bool had_begun = has_begun(node.rendezvous->member().voter_state());
  node.rendezvous->apply(event, local(node, world_.now()), effects);
  const bool is_same = node.rendezvous->member().node().incarnation == before;
  if (is_same && had_begun && instance_of(index) != instance) {
    violated("R1", "a node of an instance that has begun follows another one");
  }
  const Member& member = node.rendezvous->member();
  if (member.follows_another() && member.knows_that_it_has_begun()) {
    node.began = instance_of(index);
    node.began_until = world_.now() + node.rendezvous->policy().search_timeout / 2;
  }
  const bool leads = node.rendezvous->member().leads();
  const bool follows = node.rendezvous->member().follows_another();
  if (leads != node.led || follows != node.follows) node.calls_since = world_.now();
  node.led = leads;
  node.follows = follows;
  const int life = node.life;
  for (Effect& effect : effects) {
    if (node.acts_left == 0) kill_agent(index);
    if (!node.agent_up || node.life != life) return;
    if (node.acts_left > 0) --node.acts_left;
    std::visit([&](auto& what) { perform(index, what); }, effect);
  }
  effects.clear();
  effects_ = std::move(effects);
  check_leaders();
  arm(index);
}

void Cluster::arm(int index) {
  Node& node = nodes_[at(index)];
  if (!node.agent_up) return;
  const auto deadline = node.rendezvous->next_deadline();
  if (!deadline) return;
  // A real timer is a little late, and so never early.
  const TimePoint due = global(node, *deadline) + 20us;
  if (due >= node.tick_at && node.tick_at > world_.now()) return;
  node.tick_at = std::max(due, world_.now());
  world_.at(node.tick_at, [this, index, life = node.life] {
    Node& mine = nodes_[at(index)];
    if (mine.life != life || mine.tick_at != world_.now()) return;
    mine.tick_at = kNever;
    if (mine.frozen) mine.overslept_since = std::min(mine.overslept_since, world_.now());
    feed(index, RendezvousNode::Tick{});
  });
}

void Cluster::freeze(int index, Duration for_how_long) {
  Node& node = nodes_[at(index)];
  if (!node.agent_up || node.frozen || !node.guard_up) return;
  note(index, fmt::format("frozen for {:.2f} s", to_seconds(for_how_long)));
  node.frozen = true;
  world_.in(for_how_long, [this, index, life = node.life] {
    Node& thawed = nodes_[at(index)];
    if (thawed.life != life || !thawed.agent_up) return;
    note(index, "thaws");
    thawed.frozen = false;
    thawed.up_since = world_.now();
    const TimePoint due = std::exchange(thawed.overslept_since, kNever);
    // Its clock may differ a little.
    if (world_.now() - kOverslept * 11 / 10 > due) thawed.listens_since = world_.now();
    for (const auto& event : std::exchange(thawed.missed, {})) {
      feed(index, event);
    }
    feed(index, RendezvousNode::Tick{});
  });
}

void Cluster::kill_agent(int index) {
  const Node& node = nodes_[at(index)];
  if (!node.agent_up) return;
  note(index, "agent killed");
  has_to_continue_ = false;  // not quiet yet
  agent_gone(index);
  if (!node.guard_up) {
    if (node.runs)
      workers_ended(index, node.run, WorkersEnd::kStopped);  // by their parent-death signal
    end_kept(index);
    return end_lines(index);
  }
  // The guard kills what is left, sends the goodbye, and ends.
  world_.in(world_.between(100us, 20ms), [this, index, life = node.life] {
    Node& mine = nodes_[at(index)];
    if (mine.life != life || !mine.guard_up) return;
    if (mine.runs) workers_ended(index, mine.run, WorkersEnd::kStopped);
    send_goodbye(index);
    mine.guard_up = false;
    end_lines(index);
  });
}

void Cluster::kill_agent_in_act(int index) {
  Node& node = nodes_[at(index)];
  if (node.agent_up && node.acts_left < 0)
    node.acts_left = world_.roll(0, world_.chance(50) ? 12 : 60);
}

void Cluster::kill_guard(int index) {
  Node& node = nodes_[at(index)];
  if (!node.agent_up || !node.guard_up) return;
  note(index, "guard killed");
  node.guard_up = false;
  node.frozen = false;  // the kernel wakes a stopped agent when its guard dies
  world_.in(world_.between(100us, 5ms), [this, index, life = node.life] {
    const Node& mine = nodes_[at(index)];
    if (mine.life != life || !mine.agent_up || mine.frozen) return;
    if (mine.runs) workers_ended(index, mine.run, WorkersEnd::kStopped);
    send_goodbye(index);
    agent_gone(index);
    end_lines(index);
  });
}

void Cluster::kill_both(int index) {
  Node& node = nodes_[at(index)];
  if (!node.agent_up) return;
  note(index, "agent and guard killed");
  node.guard_up = false;
  agent_gone(index);
  end_kept(index);
  // By their parent-death signal. A kernel may take its time, for example if they hang in disk I/O.
  // They do nothing more meanwhile, so R8 is not checked for that time.
  Duration rest = world_.between(0s, 500ms);
  if (node.lease_until != kNever) {
    const TimePoint judged_at = node.lease_until + RendezvousPolicy().margin;
    rest = std::clamp(judged_at - world_.now(), Duration::zero(), rest);
  }
  end_workers(index, rest, WorkersEnd::kStopped);
  end_lines(index);
}

void Cluster::kill_all(int index) {
  Node& node = nodes_[at(index)];
  if (!node.agent_up) return;
  note(index, "all killed at one blow");
  node.guard_up = false;
  agent_gone(index);
  if (node.runs) workers_ended(index, node.run, WorkersEnd::kStopped);
  end_kept(index);
  end_lines(index);
}

void Cluster::power_off(int index) {
  Node& node = nodes_[at(index)];
  if (!network_.is_up(index)) return;
  note(index, "power off");
  network_.set_up(index, false);
  node.agent_up = node.guard_up = false;
  if (node.runs) workers_ended(index, node.run, WorkersEnd::kStopped);
  ++node.life;
  ++node.boots;
  node.ends.clear();
  node.lines.clear();
  node.kept.clear();
}

/// The agent's process has ended: its connections end, in any order.
void Cluster::agent_gone(int index) {
  Node& node = nodes_[at(index)];
  node.agent_up = false;
  for (const auto& entry : std::exchange(node.ends, {})) {
    const End end = entry.second;
    world_.in(world_.between(1us, 3ms), [this, end] { close_end(end.connection, !end.is_caller); });
  }
}

/// From here on the guard can send the goodbye on it: a frozen agent has not reported it yet.
void Cluster::keep(int leader, const RendezvousNode::LifelineOpened& opened) {
  const auto is_it = [&](const auto& line) {
    return line->leader == leader && line->leader_life == nodes_[at(leader)].life &&
           line->incarnation == opened.node && line->leadership == opened.leadership;
  };
  for (const Node& node : nodes_) {
    std::ranges::copy_if(node.lines, std::back_inserter(nodes_[at(leader)].kept), is_it);
  }
  say_held(leader);
}

/// "H", once agent, guard and all workers of this node hold a line of another node. Workers inherit
/// what is there when they start; so once sent, it stays true.
void Cluster::say_held(int index) {
  const Node& node = nodes_[at(index)];
  int others = 0;
  for (const auto& line : node.kept) {
    if (++others > setting_.held_max) return;
    if (line->has_sent_held || (node.runs && !line->workers_hold)) continue;
    line->has_sent_held = true;
    network_.send(*line->to_member, [line] { line->is_known_held = true; });
  }
}

bool Cluster::holds_kept(const Line& line) const {
  const Node& leader = nodes_[at(line.leader)];
  if (leader.life != line.leader_life) return false;
  return leader.agent_up || leader.guard_up || (leader.runs && line.workers_hold);
}

bool Cluster::holds_own_lines(int index, int life) const {
  const Node& node = nodes_[at(index)];
  return node.life == life && (node.agent_up || node.guard_up || node.runs);
}

/// The leader's kernel reports that no process holds its end of the line any more.
void Cluster::end_of_leader(const std::shared_ptr<Line>& line) {
  network_.send(*line->to_member, [this, line] {
    const Node& member = nodes_[at(line->member)];
    if (member.life != line->member_life || !line->is_known_held) return;
    feed(line->member, RendezvousNode::Goodbye{.leadership = line->leadership});
  });
}

/// The member's kernel reports the same for its own end.
void Cluster::end_of_member(const std::shared_ptr<Line>& line) {
  network_.send(*line->to_leader, [this, line] {
    const Node& leader = nodes_[at(line->leader)];
    if (line->is_open && leader.life == line->leader_life) {
      feed(line->leader, RendezvousNode::LifelineEnded{.node = line->incarnation});
    }
  });
}

/// The lines to this leader that no process of its node holds any more.
void Cluster::end_kept(int index) {
  for (const auto& line : nodes_[at(index)].kept) {
    if (holds_kept(*line) || std::exchange(line->is_ended, true)) continue;
    end_of_leader(line);
  }
}

void Cluster::perform(int index, const effects::ProbeLines& probe) {
  const Node& node = nodes_[at(index)];
  for (const auto& line : node.lines) {
    if (line->leadership.leader != probe.node) continue;
    network_.send(*line->to_leader, [this, line] {
      if (!holds_kept(*line)) end_of_leader(line);
    });
  }
  for (const auto& line : node.kept) {
    if (line->incarnation != probe.node) continue;
    network_.send(*line->to_member, [this, line] {
      if (!holds_own_lines(line->member, line->member_life)) end_of_member(line);
    });
  }
}

/// As on a file system that all nodes share: the first one to claim gets it.
void Cluster::perform(int index, const effects::ClaimFence& claim) {
  world_.in(world_.between(1ms, 300ms), [this, index, claim, life = nodes_[at(index)].life] {
    const auto [held, is_new] = fences_.emplace(std::pair(claim.instance, claim.round), claim.node);
    if (nodes_[at(index)].life != life) return;
    feed(
        index,
        RendezvousNode::FenceHeld{
            .instance = claim.instance, .round = claim.round, .holder = held->second});
  });
}

/// By the survivor of a leader's guard and agent, when none of its workers runs.
void Cluster::send_goodbye(int index) {
  for (const auto& line : nodes_[at(index)].kept) {
    network_.send(*line->to_member, [this, line] {
      const Node& member = nodes_[at(line->member)];
      if (member.life == line->member_life) {
        feed(line->member, RendezvousNode::Goodbye{.leadership = line->leadership});
      }
    });
  }
  nodes_[at(index)].kept.clear();
}

/// The last holder of the node's lifelines has ended.
void Cluster::end_lines(int index) {
  Node& node = nodes_[at(index)];
  end_kept(index);
  if (node.agent_up || node.guard_up || node.runs) return;
  for (const auto& line : std::exchange(node.lines, {}))
    end_of_member(line);
}

void Cluster::perform(int index, const effects::OpenLine& open) {
  Node& node = nodes_[at(index)];
  const auto is_same = [&open](const auto& line) {
    return line->leadership == open.leadership && line->incarnation == open.node;
  };
  if (std::ranges::any_of(node.lines, is_same)) return;
  const auto end = node.ends.find(open.uplink);
  if (end == node.ends.end()) return;
  const int leader = end->second.connection->callee;
  auto const line = std::make_shared<Line>();
  line->member = index;
  line->member_life = node.life;
  line->incarnation = open.node;
  line->leader = leader;
  line->leader_life = nodes_[at(leader)].life;
  line->leadership = open.leadership;
  line->to_leader = &network_.pipe(index, leader);
  line->to_member = &network_.pipe(leader, index);
  node.lines.push_back(line);
  network_.send(*line->to_leader, [this, line] {
    const Node& there = nodes_[at(line->leader)];
    if (!there.agent_up || there.life != line->leader_life) return;
    line->is_open = true;
    feed(
        line->leader,
        RendezvousNode::LifelineOpened{.node = line->incarnation, .leadership = line->leadership});
  });
}

// Connections. ---------------------------------------------------------------------------------

void Cluster::perform(int index, const effects::Call& call) {
  Node& node = nodes_[at(index)];
  auto const connection = std::make_shared<Connection>();
  connection->caller = index;
  connection->callee = node_of(call.to);
  connection->caller_life = node.life;
  connection->caller_link = call.link;
  connection->there = &network_.pipe(connection->caller, connection->callee);
  connection->back = &network_.pipe(connection->callee, connection->caller);
  node.ends.emplace(call.link, End{.connection = connection, .is_caller = true});
  if (tells_calls) note(index, fmt::format("calls n{}", connection->callee));
  network_.send(*connection->there, [this, connection] { accept(connection); });
}

void Cluster::accept(const std::shared_ptr<Connection>& connection) {
  if (!connection->caller_open) return;
  Node& callee = nodes_[at(connection->callee)];
  const bool listens = callee.agent_up;
  if (listens) {
    connection->callee_open = true;
    connection->callee_life = callee.life;
    connection->callee_link = Link{callee.last_link += 2};
    callee.ends.emplace(connection->callee_link, End{.connection = connection, .is_caller = false});
  }
  network_.send(*connection->back, [this, connection, listens] {
    Node& caller = nodes_[at(connection->caller)];
    if (!connection->caller_open || caller.life != connection->caller_life) return;
    if (listens)
      return feed(connection->caller, RendezvousNode::Connected{.link = connection->caller_link});
    connection->caller_open = false;
    caller.ends.erase(connection->caller_link);
    feed(connection->caller, RendezvousNode::Closed{.link = connection->caller_link, .why = {}});
  });
}

void Cluster::perform(int index, effects::Send& send) {
  Node& node = nodes_[at(index)];
  const auto found = node.ends.find(send.to);
  if (found == node.ends.end()) return;
  const auto connection = found->second.connection;
  const bool to_callee = found->second.is_caller;
  if (tells_calls) {
    const std::string text = describe(send.message, [this](Incarnation of) { return name(of); });
    const int to = to_callee ? connection->callee : connection->caller;
    if (!text.empty()) note(index, fmt::format("-> n{} {}", to, text));
  }
  const bool is_offer = std::holds_alternative<OfferRound>(send.message);
  if (is_offer && strikes_at_starts && world_.chance(2)) trouble_offer(index);
  network_.send(
      *(to_callee ? connection->there : connection->back),
      [this, connection, to_callee, message = std::move(send.message)]() mutable {
        deliver(connection, to_callee, message);
      });
}

void Cluster::deliver(
    const std::shared_ptr<Connection>& connection, bool to_callee, Message& message) {
  const bool is_open = to_callee ? connection->callee_open : connection->caller_open;
  const int to = to_callee ? connection->callee : connection->caller;
  const int life = to_callee ? connection->callee_life : connection->caller_life;
  // A kernel that no longer knows it resets it.
  if (is_open && nodes_[at(to)].life != life) return close_end(connection, to_callee);
  if (!is_open) return;
  const Link link = to_callee ? connection->callee_link : connection->caller_link;
  feed(to, RendezvousNode::Received{.link = link, .message = std::move(message)});
}

void Cluster::perform(int index, const effects::Close& close) {
  Node& node = nodes_[at(index)];
  const auto found = node.ends.find(close.link);
  if (found == node.ends.end()) return;
  const End end = found->second;
  node.ends.erase(found);
  close_end(end.connection, !end.is_caller);
}

/// One side has closed; the other sees it after what was sent before.
void Cluster::close_end(const std::shared_ptr<Connection>& connection, bool at_callee) {
  (at_callee ? connection->callee_open : connection->caller_open) = false;
  network_.send(*(at_callee ? connection->back : connection->there), [this, connection, at_callee] {
    bool& other_open = at_callee ? connection->caller_open : connection->callee_open;
    if (!std::exchange(other_open, false)) return;
    const int other = at_callee ? connection->caller : connection->callee;
    const int life = at_callee ? connection->caller_life : connection->callee_life;
    const Link link = at_callee ? connection->caller_link : connection->callee_link;
    Node& node = nodes_[at(other)];
    if (node.life != life) return;
    node.ends.erase(link);
    feed(other, RendezvousNode::Closed{.link = link, .why = {}});
  });
}

// Workers. -------------------------------------------------------------------------------------

void Cluster::perform(int index, const effects::SetLease& lease) {
  Node& node = nodes_[at(index)];
  const TimePoint before = std::exchange(node.lease_until, global(node, lease.until));
  // The guard is told that it ends sooner, before the agent does anything else.
  if (node.runs && node.lease_until < before) guard_minds_lease(index, node.life, node.run);
}

void Cluster::perform(int index, const effects::BeginStore& store) {
  const auto nodes = static_cast<int>(store.nodes.size());
  note(
      index,
      fmt::format("begins round {}/{} of {} nodes", store.round.term, store.round.number, nodes));
  const Incarnation instance = instance_of(index);
  round_nodes_[{.instance = instance, .round = store.round}] = nodes;
  if (!newest_.contains(instance)) begin_instance(index);
  const Coordinator* const leads = nodes_[at(index)].rendezvous->coordinator();
  if (leads == nullptr) return violated("R1", "a round begins without a leader");
  voters_ = leads->round()->voters.members;
  check_places(*leads);
  if (strikes_at_starts && world_.chance(10)) cut_off_some(index);
  if (nodes < setting_.range.min() || nodes > setting_.range.max()) {
    violated("R9", fmt::format("a round of {} nodes", nodes));
  }
  RoundId& newest = newest_[instance];
  if (newest > store.round) violated("R1", "a round that is older than one before");
  newest = store.round;
}

Incarnation Cluster::instance_of(int index) const {
  return nodes_[at(index)].rendezvous->member().instance().bootstrap_leader;
}

/// Two instances, of which the later one was begun while no node of the other could be heard: it
/// ends as soon as one can.
bool Cluster::is_excused(Incarnation a, Incarnation b) const {
  return a != b && (doubles_.contains(a) || doubles_.contains(b));
}

bool Cluster::could_be_heard(int bootstrap_leader, int survivor) const {
  constexpr auto kLongEnough = 10s;
  const Node& there = nodes_[at(survivor)];
  const TimePoint now = world_.now();
  // A follower leaves it to its leader to report a node that came back.
  if (there.follows || there.calls_since + kLongEnough >= now) return false;
  return network_.whole_since(bootstrap_leader, survivor) + kLongEnough < now &&
         there.up_since + kLongEnough < now &&
         nodes_[at(bootstrap_leader)].up_since + kLongEnough < now;
}

/// A leader elsewhere has informed whatever node is up there now: connecting takes two ways, and
/// the message a third. A node that thaws before it can know that it was suspended may read its
/// clock before the messages that have arrived.
bool Cluster::has_called(int leader, int bootstrap_leader) const {
  const TimePoint up_since = nodes_[at(bootstrap_leader)].up_since;
  if (up_since != nodes_[at(bootstrap_leader)].listens_since) return false;
  const Duration within = announced_within(setting_.lease);
  const bool is_fast = kAnnounceInterval + 3 * network_.slowest < within;
  return is_fast && nodes_[at(leader)].calls_since + within < world_.now() &&
         network_.whole_since(bootstrap_leader, leader) <= up_since;
}

/// A leader takes over that was in no round of the one which began `round`, and no node lives that
/// was: what only a machine knew that has lost its memory is lost with it.
bool Cluster::is_forgotten(RoundId round, RoundId by) const {
  if (round.term >= by.term) return false;
  return std::ranges::none_of(nodes_, [&](const Node& node) {
    if (!node.agent_up) return false;
    const auto later = node.ran.lower_bound(round);
    return later != node.ran.end() && later->term < by.term;
  });
}

/// R2 across instances: no node bootstraps a job again that could have heard of it.
void Cluster::begin_instance(int bootstrap_leader) {
  const Incarnation instance = instance_of(bootstrap_leader);
  bool has_survivors = false;
  for (int other = 0; other < setting_.nodes; ++other) {
    const Node& node = nodes_[at(other)];
    if (!node.agent_up || other == bootstrap_leader) continue;
    const Member& member = node.rendezvous->member();
    // An elected leader leads what may have begun unseen.
    const Coordinator* const leads = node.rendezvous->coordinator();
    const bool knows = has_begun(member.voter_state()) || (leads != nullptr && leads->has_begun());
    const bool is_other = member.instance().exists() && instance_of(other) != instance;
    const bool was_told = node.began != Incarnation{} && world_.now() < node.began_until;
    if (!is_other && member.instance().exists() && was_told && node.began != instance) {
      violated(
          "R1",
          fmt::format("n{} begins the job again with n{}, a spare of it", bootstrap_leader, other));
    }
    // The start of the round that it was offered may be on its way from a leader that is dead.
    const bool may_start = is_other && member.voter_state().offered.round.number != 0 &&
                           !could_be_heard(bootstrap_leader, other);
    has_survivors |= may_start || (is_other && knows);
    if (!is_other || !knows) continue;
    const bool is_told = leads != nullptr && has_called(other, bootstrap_leader);
    if (!node.frozen && (could_be_heard(bootstrap_leader, other) || is_told)) {
      violated(
          "R2",
          fmt::format("n{} begins the job again, though n{} knows it", bootstrap_leader, other));
    }
  }
  const bool others_run = std::ranges::any_of(
      nodes_, [instance](const Node& node) { return node.runs && node.instance != instance; });
  if (!has_survivors && !others_run) return;
  note(bootstrap_leader, "begins the job a second time, unheard");
  doubles_.insert(instance);
  has_to_continue_ = false;
}

/// A leader that offers a round is killed before it has started, or some nodes never get the offer.
void Cluster::trouble_offer(int leader) {
  if (world_.chance(50)) return cut_off_some(leader);
  world_.in(
      world_.between(Duration(0), 2 * network_.slowest), [this, leader] { kill_agent(leader); });
}

/// The start of a round reaches some of its nodes but not the others.
void Cluster::cut_off_some(int leader) {
  const Duration for_how_long = world_.between(1s, 12s);
  for (int other = 0; other < setting_.nodes; ++other) {
    if (other == leader || !world_.chance(50)) continue;
    network_.cut(leader, other);
    network_.cut(other, leader);
    world_.in(for_how_long, [this, leader, other] {
      network_.mend(leader, other);
      network_.mend(other, leader);
    });
  }
}

void Cluster::perform(int index, const effects::StartWorkers& start) {
  Node& node = nodes_[at(index)];
  note(
      index,
      fmt::format(
          "starts workers of {}/{}, attempt {}{}{}",
          start.round.term,
          start.round.number,
          start.progress.attempt,
          start.progress.reason.empty() ? "" : ": ",
          start.progress.reason));
  for (int other = 0; other < setting_.nodes; ++other) {
    const Node& running = nodes_[at(other)];
    const bool is_other = running.round != start.round || running.instance != instance_of(index);
    if (running.runs && is_other && !is_excused(running.instance, instance_of(index))) {
      violated(
          "R2",
          fmt::format(
              "n{} starts round {}/{} while n{} runs {}/{}",
              index,
              start.round.term,
              start.round.number,
              other,
              running.round.term,
              running.round.number));
    }
  }
  if (node.runs) violated("R2", "workers are started twice");
  const Incarnation instance = instance_of(index);
  if (done_.contains(instance)) violated("R6", "a round starts after the job was reported done");
  auto& places = places_[{.instance = instance, .round = start.round}];
  places.emplace(index, start.place);
  check_rounds();
  if (start.progress.restarts_used > setting_.max_restarts) violated("R5", "the budget is passed");
  auto& paid = paid_[instance];
  std::erase_if(paid, [&](const RoundId& round) { return is_forgotten(round, start.round); });
  if (start.progress.reason.starts_with("rank ")) paid.insert(start.round);
  node.ran.insert(start.round);
  if (static_cast<int>(paid.size()) > setting_.max_restarts) violated("R5", "too many restarts");
  newest_term_ = std::max(newest_term_, start.round.term);

  node.instance = instance;
  node.round = start.round;
  node.runs = true;
  int others = 0;
  for (const auto& line : node.kept)
    line->workers_hold = ++others <= setting_.held_max;
  say_held(index);
  node.stopping = false;
  node.has_failed = false;
  node.failure.reset();
  const int run = ++node.run;
  const int life = node.life;
  world_.in(world_.between(100us, 5ms), [this, index, run, life, round = start.round] {
    const Node& mine = nodes_[at(index)];
    if (mine.life != life || mine.run != run || !mine.runs || mine.has_failed) return;
    WorkerNews news;
    news.round = round;
    news.state = WorkersState::kRunning;
    feed(index, RendezvousNode::Workers{.news = news});
  });
  world_.in(setting_.work + world_.between(0s, 200ms), [this, index, run] {
    const Node& mine = nodes_[at(index)];
    if (mine.run == run && mine.runs && !mine.stopping) {
      workers_ended(index, run, WorkersEnd::kSucceeded);
    }
  });
  guard_minds_lease(index, life, run);
}

/// The guard kills agent and workers if the agent itself did not end them when the lease ended.
void Cluster::guard_minds_lease(int index, int life, int run) {
  const Node& node = nodes_[at(index)];
  const TimePoint due = node.lease_until == kNever ? world_.now() + 1s : node.lease_until + 250ms;
  world_.at(due, [this, index, life, run] {
    Node& mine = nodes_[at(index)];
    if (mine.life != life || mine.run != run || !mine.runs || !mine.guard_up) return;
    const bool is_over = mine.lease_until != kNever && world_.now() >= mine.lease_until + 250ms;
    if (!is_over) return guard_minds_lease(index, life, run);
    note(index, "the guard ends all: the lease is over");
    agent_gone(index);
    workers_ended(index, run, WorkersEnd::kStopped);
    send_goodbye(index);
    mine.guard_up = false;
    end_lines(index);
  });
}

void Cluster::perform(int index, const effects::StopWorkers& stop) {
  Node& node = nodes_[at(index)];
  note(index, fmt::format("stops workers: {}", stop.order.why));
  if (!node.runs || std::exchange(node.stopping, true)) return;
  if (stop.order.notice != 0 && !node.has_failed) return end_by_notice(index);
  // Most end at once, some use their grace period.
  const Duration after = world_.chance(setting_.slow_workers) ? world_.between(1ms, kGrace)
                                                              : world_.between(1ms, 20ms);
  end_workers(index, after, WorkersEnd::kStopped);
}

/// Most save, and take their time for it; some do not handle the notice.
void Cluster::end_by_notice(int index) {
  if (!world_.chance(setting_.forgetful_workers)) {
    return end_workers(index, world_.between(1ms, 2s), WorkersEnd::kSaved);
  }
  const WorkerNews news = failure(index, ended_by_term());
  const int run = nodes_[at(index)].run;
  world_.in(world_.between(0s, 5ms), [this, index, run, news] {
    const Node& node = nodes_[at(index)];
    if (node.run != run || !node.runs || !node.agent_up) return;
    feed(index, RendezvousNode::Workers{.news = news});
    end_workers(index, world_.between(1ms, 500ms), WorkersEnd::kStopped);
  });
}

WorkerNews Cluster::failure(int index, FailureNews first) const {
  WorkerNews news;
  news.round = nodes_[at(index)].round;
  news.state = WorkersState::kFailed;
  first.host = endpoint_of(index).host;
  news.failure = std::move(first);
  return news;
}

void Cluster::perform(int index, const effects::KillWorkers& kill) {
  note(index, "kills workers: " + kill.why);
  end_workers(index, world_.between(1ms, 60ms), WorkersEnd::kStopped);
}

void Cluster::end_workers(int index, Duration after, WorkersEnd how) {
  world_.in(
      after, [this, index, run = nodes_[at(index)].run, how] { workers_ended(index, run, how); });
}

void Cluster::workers_ended(int index, int run, WorkersEnd how) {
  const bool well = how == WorkersEnd::kSucceeded;
  Node& node = nodes_[at(index)];
  if (node.run != run || !node.runs) return;
  node.runs = false;
  note(index, well ? "workers succeeded" : "workers ended");
  if (node.lease_until != kNever && world_.now() > node.lease_until + RendezvousPolicy().margin) {
    violated(
        "R8",
        fmt::format(
            "n{} ran workers {:.3f} s after its lease",
            index,
            to_seconds(world_.now() - node.lease_until)));
  }
  const RoundKey round{.instance = node.instance, .round = node.round};
  if (how != WorkersEnd::kStopped) saved_[round].insert(index);
  if (well) {
    succeeded_[round].insert(index);
    if (world_.chance(3)) kill_agent_in_act(leader());  // the verdict is about to be sent
  }
  if (!node.agent_up) return end_lines(index);
  say_held(index);
  WorkerNews news;
  news.round = node.round;
  news.state = well ? WorkersState::kSucceeded : WorkersState::kStopped;
  news.has_saved = how == WorkersEnd::kSaved;
  if (!well) news.unfit = check(index);
  if (!well && setting_.reads_last_lines) news.failure = node.failure;
  feed(index, RendezvousNode::Workers{.news = news});
  if (setting_.has_own_console && node.has_failed) read_failure(index, run);
}

/// Not if the agent is lost meanwhile.
void Cluster::read_failure(int index, int run) {
  world_.in(world_.between(0s, 1500ms), [this, index, run, round = nodes_[at(index)].round] {
    const Node& node = nodes_[at(index)];
    if (node.run != run || !node.agent_up || node.frozen) return;
    feed(
        index,
        RendezvousNode::FailureRead{.text = {.round = round, .rank = 0, .lines = {{.text = "x"}}}});
  });
}

/// The result of a node's check: by its life and round, so that schedules without stay the same.
std::string Cluster::check(int index) const {
  const Node& node = nodes_[at(index)];
  const auto life = static_cast<std::uint64_t>(node.rendezvous->policy().node.incarnation);
  const auto round = static_cast<std::uint64_t>(node.round.number) + 1;
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
  const auto dice = static_cast<int>(((life ^ (round * kMix)) * kMix >> 32U) % 100);
  return dice < setting_.unfit_percent ? "its check failed" : "";
}

/// An unfit node runs workers only if the others do not suffice.
void Cluster::check_places(const Coordinator& leads) {
  const auto unfit = [&leads](Incarnation node) {
    const auto found = leads.nodes().find(node);
    return found != leads.nodes().end() && !leads.why_unfit(found->second).empty();
  };
  const Coordinator::Round& round = *leads.round();
  if (std::ranges::none_of(round.to_run, unfit)) return;
  for (const Incarnation member : round.voters.members) {
    if (!round.runs.contains(member) && !unfit(member)) {
      violated("R11", "an unfit node runs workers in the place of another");
    }
  }
}

void Cluster::fail_worker(int index) {
  FailureNews failure;
  failure.pid = 1;
  failure.how = "exited with status 3";
  failure.exit_status = 3;
  fail(index, std::move(failure));
}

void Cluster::cannot_start_worker(int index) {
  FailureNews failure;
  failure.how = "cannot start a process";
  failure.exit_status = 75;
  failure.needs_pause = true;
  fail(index, std::move(failure));
}

void Cluster::fail(int index, FailureNews first) {
  Node& node = nodes_[at(index)];
  if (!node.agent_up || !node.runs || node.stopping || node.frozen) return;
  note(index, "a worker fails: " + first.how);
  node.has_failed = true;
  node.stopping = true;
  const WorkerNews news = failure(index, std::move(first));
  node.failure = news.failure;
  node.failure->last_line = TextLine{.text = "the same each time"};
  end_workers(index, world_.between(1ms, 500ms), WorkersEnd::kStopped);
  feed(index, RendezvousNode::Workers{.news = news});
}

void Cluster::end_worker_by_notice(int index) {
  Node& node = nodes_[at(index)];
  if (!node.agent_up || !node.runs || node.stopping || node.frozen) return;
  note(index, "a worker is ended by SIGTERM");
  node.has_failed = true;  // the other workers run on until they are stopped
  feed(index, RendezvousNode::Workers{.news = failure(index, ended_by_term())});
}

void Cluster::lose_peer(int index) {
  Node& node = nodes_[at(index)];
  if (!node.agent_up || !node.runs || node.stopping || node.frozen) return;
  FailureNews failure;
  failure.pid = 1;
  failure.how = "exited with status 75";
  failure.exit_status = 75;
  note(index, "a worker has lost a rendezvous");
  node.has_failed = true;  // the other workers run on until they are stopped
  feed(index, RendezvousNode::Workers{.news = this->failure(index, std::move(failure))});
}

void Cluster::succeed(int index) {
  const Node& node = nodes_[at(index)];
  if (node.runs && !node.stopping) workers_ended(index, node.run, WorkersEnd::kSucceeded);
}

void Cluster::tell_to_stop(int index) {
  Node& node = nodes_[at(index)];
  if (!node.agent_up || node.frozen) return;
  note(index, "is told to stop");
  if (node.runs && !std::exchange(node.stopping, true))
    end_workers(index, world_.between(1ms, 300ms), WorkersEnd::kStopped);
  feed(index, RendezvousNode::Signalled{.signal = 15, .whole_job = false});
}

void Cluster::give_notice(int index) {
  const Node& node = nodes_[at(index)];
  if (!node.agent_up || node.frozen) return;
  note(index, "is given notice");
  feed(index, RendezvousNode::Signalled{.signal = 15, .whole_job = true});
}

// The end. -------------------------------------------------------------------------------------

void Cluster::perform(int index, const effects::Absence& absence) {
  note(index, fmt::format("{} is {}", absence.host, absence.is_over ? "here" : "lost"));
}

void Cluster::perform(int index, const effects::ShowFailure& failure) {
  note(
      index, fmt::format("shows the failure of rank {} on {}", failure.failure.rank, failure.host));
}

void Cluster::perform(int index, const effects::Note& text) {
  note(index, text.text);
}

void Cluster::perform(int index, const effects::Finish& finish) {
  Node& node = nodes_[at(index)];
  note(index, fmt::format("ends with {}: {}", finish.exit_status, finish.why));
  if (node.runs) violated("R8", "an agent ends before its workers");
  const auto is_whole = [this](const auto& entry) {
    return static_cast<int>(entry.second.size()) == round_nodes_.at(entry.first);
  };
  if (finish.exit_status == 0) {
    if (std::ranges::none_of(succeeded_, is_whole)) violated("R6", "reported done");
    done_.insert(instance_of(index));
  }
  // A node whose leader is lost decides by its own workers.
  const bool is_for_all = finish.exit_status == kSavedStatus && !finish.why.empty();
  if (is_for_all && std::ranges::none_of(saved_, is_whole)) violated("R6", "reported saved");
  // Of two living nodes with one rank, one is refused. The job continues with the other, unless it
  // waits for every rank and has not begun, or begins again.
  const bool is_refused = finish.exit_status == kExitUsage;
  const bool is_fixed = setting_.range.min() == setting_.range.max();
  const bool has_begun = std::ranges::any_of(places_, [this, index](const auto& entry) {
    return entry.first.instance == instance_of(index);
  });
  const bool may_end_all = setting_.twin_of && is_fixed && !has_begun;
  if (is_refused && !twin(index) && !may_end_all) {
    violated("R4", "refused, though it is one of the job");
  }
  if (!is_refused || may_end_all) finished_[index] = finish.exit_status;
  // A node that came back knows only the endpoint, and maybe no node there can name the leader.
  const Coordinator* const leads = node.rendezvous->coordinator();
  const bool bootstraps = leads != nullptr && !leads->has_begun();
  const bool had_leader = node.rendezvous->member().voter_state().obeyed.term != 0 && !bootstraps;
  if (has_to_continue_ && had_leader && finish.exit_status == 75) {
    // Its search may have timed out during the faults; then the others may lack its vote.
    const Member& member = node.rendezvous->member();
    const RendezvousPolicy& policy = node.rendezvous->policy();
    const Duration patience = std::max(
        member.search().report().timeout(), policy.regather_timeout.value_or(policy.join_timeout));
    has_to_continue_ = world_.now() > quiet_since_ + patience - 1s;
    if (has_to_continue_) violated("R4", "given up without a reason");
  }
  send_goodbye(index);
  agent_gone(index);
  node.guard_up = false;
  end_lines(index);
}

std::vector<int> Cluster::running() const {
  std::map<int, int> by_rank;
  for (int index = 0; index < setting_.nodes; ++index) {
    const Node& node = nodes_[at(index)];
    if (!node.runs) continue;
    const RoundKey round{.instance = node.instance, .round = node.round};
    by_rank.emplace(places_.at(round).at(index).group_rank, index);
  }
  std::vector<int> out;
  out.reserve(by_rank.size());
  for (const auto& [rank, index] : by_rank) {
    out.push_back(index);
  }
  return out;
}

RoundId Cluster::round() const {
  for (const Node& node : nodes_) {
    if (node.runs) return node.round;
  }
  return {};
}

const std::map<int, Place>& Cluster::places(RoundId round) const {
  const auto found = std::ranges::find_if(
      places_, [round](const auto& entry) { return entry.first.round == round; });
  return found->second;
}

bool Cluster::is_whole() const {
  const auto nodes = std::ranges::find_if(
      round_nodes_, [this](const auto& entry) { return entry.first.round == round(); });
  return nodes != round_nodes_.end() && std::ssize(running()) == nodes->second;
}

bool Cluster::all_ended() const {
  return std::ranges::none_of(
      nodes_, [](const Node& node) { return node.agent_up || node.guard_up; });
}

// Rules. ---------------------------------------------------------------------------------------

/// R1. A frozen node does not act, however long it believes in its lease.
void Cluster::check_leaders() {
  acting_.clear();
  for (int index = 0; index < setting_.nodes; ++index) {
    const Node& node = nodes_[at(index)];
    if (!node.agent_up || node.frozen) continue;
    const Coordinator* const coordinator = node.rendezvous->coordinator();
    if (coordinator == nullptr) continue;
    const Incarnation instance = coordinator->instance().bootstrap_leader;
    const Incarnation self = node.rendezvous->member().node().incarnation;
    const auto [found, is_new] =
        led_by_.try_emplace(std::pair(instance, coordinator->term()), self);
    if (is_new) leader_ = index;
    if (found->second != self) {
      violated(
          "R1",
          fmt::format(
              "two lead term {}: n{} and {:x}",
              coordinator->term(),
              index,
              static_cast<std::uint64_t>(found->second)));
    }
    if (coordinator->is_fenced()) continue;
    // A bootstrap leader alone does not act for any other node yet.
    const bool acts = local(node, world_.now()) < coordinator->leads_until();
    if (acts && coordinator->has_begun()) acting_.push_back(instance);
  }
  if (acting_.size() < 2) return;
  std::ranges::sort(acting_);
  if (std::ranges::adjacent_find(acting_) != acting_.end()) violated("R1", "two leaders act");
  const bool is_of_one = acting_.front() == acting_.back();
  const auto is_double = [this](Incarnation instance) { return doubles_.contains(instance); };
  if (!is_of_one && std::ranges::none_of(acting_, is_double)) {
    violated("R1", "leaders of two instances act");
  }
}

/// R3. The same world everywhere, ranks contiguous, each assigned once.
void Cluster::check_rounds() {
  for (const auto& [round, places] : places_) {
    std::set<int> group_ranks;
    std::map<int, int> first_ranks;
    for (const auto& [index, place] : places) {
      const auto other = twin(index);
      if (other && places.contains(*other)) violated("R3", "two nodes of one rank");
      group_ranks.insert(place.group_rank);
      first_ranks.emplace(place.first_rank, 1 + index % 2);
      const bool differs = place.world_size != places.begin()->second.world_size ||
                           place.group_size != places.begin()->second.group_size;
      if (differs) violated("R3", "worlds differ");
    }
    if (group_ranks.size() != places.size()) violated("R3", "a group rank is given twice");
    int end = 0;
    for (const auto& [first, workers] : first_ranks) {
      if (first < end) violated("R3", "ranks overlap");
      end = first + workers;
    }
  }
}

/// Whether a living node knows of a round that was offered after the newest started one, and whose
/// leader is gone: it may have been started, so its voter set is needed as well.
bool Cluster::lacks_votes_of_an_offer() const {
  struct Offer {
    int size = 0;
    int voters = 0;
  };
  std::map<RoundKey, Offer> offers;
  std::set<Incarnation> alive;
  for (const Node& node : nodes_) {
    if (!node.agent_up) continue;
    alive.insert(node.rendezvous->member().node().incarnation);
    const VoterState& voter_state = node.rendezvous->member().voter_state();
    const auto newest = newest_.find(voter_state.instance.bootstrap_leader);
    for (const VoterSet* reported : voter_sets_of(voter_state)) {
      if (newest != newest_.end() && reported->round <= newest->second) continue;
      Offer& offer =
          offers[{.instance = voter_state.instance.bootstrap_leader, .round = reported->round}];
      offer.size = reported->size;
      if (reported->is_member) ++offer.voters;
    }
  }
  return std::ranges::any_of(offers, [&](const auto& entry) {
    const auto& [key, offer] = entry;
    const auto led = led_by_.find(std::pair(key.instance, key.round.term));
    const bool has_leader = led != led_by_.end() && alive.contains(led->second);
    return !has_leader && !is_majority(offer.voters, offer.size);
  });
}

void Cluster::begin_quiet() {
  quiet_since_ = world_.now();
  int alive = 0;
  int voters = 0;
  bool is_known = false;  // whether a living node knows that the newest round was started
  for (const Node& node : nodes_) {
    if (!node.agent_up) continue;
    if (node.rendezvous->member().voter_state().obeyed.term != 0) ++alive;
    if (voters_.contains(node.rendezvous->member().node().incarnation)) ++voters;
    const VoterState& voter_state = node.rendezvous->member().voter_state();
    const auto newest = newest_.find(voter_state.instance.bootstrap_leader);
    is_known |= newest != newest_.end() && newest->second == voter_state.committed.round;
  }
  // Else the previous voter set is needed as well.
  has_to_continue_ = is_known && finished_.empty() && alive >= setting_.range.min() &&
                     !voters_.empty() && 2 * voters > static_cast<int>(voters_.size());
  if (!doubles_.empty() || lacks_votes_of_an_offer()) has_to_continue_ = false;
  if (has_to_continue_) note(-1, "quiet: the job has to continue");
  mind_quiet();
  world_.in(25s, [this] { check_led(); });
}

/// R4: no node waits in vain. By then all leases are over, and all have searched several times.
void Cluster::check_led() {
  if (!has_to_continue_ || any_finished()) return;
  const bool is_led = std::ranges::any_of(nodes_, [this](const Node& node) {
    const Coordinator* const leads = node.agent_up ? node.rendezvous->coordinator() : nullptr;
    return leads != nullptr && leads->has_begun() && !leads->is_fenced() &&
           local(node, world_.now()) < leads->leads_until();
  });
  if (!is_led) violated("R4", "nobody leads, though enough could");
}

/// R4 in quiet: no workers run in a round that no node leads.
void Cluster::mind_quiet() {
  constexpr auto kLongEnough = 15s;  // a lease, a margin, a grace period and a search
  for (int index = 0; index < setting_.nodes; ++index) {
    Node& node = nodes_[at(index)];
    const bool is_led = std::ranges::any_of(nodes_, [&node](const Node& other) {
      const Coordinator* const leads = other.agent_up ? other.rendezvous->coordinator() : nullptr;
      const Coordinator::Round* const round = leads == nullptr ? nullptr : leads->round();
      return round != nullptr && leads->instance().bootstrap_leader == node.instance &&
             round->id == node.round;
    });
    if (!node.runs || is_led) {
      node.unled_since = kNever;
    } else if (node.unled_since == kNever) {
      node.unled_since = world_.now();
    } else if (world_.now() > node.unled_since + kLongEnough) {
      violated("R4", fmt::format("n{} runs workers of a round that nobody leads", index));
    }
  }
  world_.in(1s, [this] { mind_quiet(); });
}

void Cluster::check_settled() {
  for (int index = 0; index < setting_.nodes; ++index) {
    const Node& node = nodes_[at(index)];
    if (!node.agent_up) continue;
    violated(
        "R4",
        fmt::format("n{} is left in between (term {})", index, node.rendezvous->member().term()));
  }
}

}  // namespace ddprun::sim
