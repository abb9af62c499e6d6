// What RendezvousNode reports to people. tests/sim tests its decisions.

#include "rendezvous/core/rendezvous_node.hpp"

#include "rendezvous/core/far_ahead.hpp"
#include "rendezvous/core/job_status.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

RendezvousPolicy policy_of_one_of_two() {
  RendezvousPolicy policy;
  policy.job = "j";
  policy.node.incarnation = Incarnation{1};
  policy.node.host = "n0";
  policy.node.listens = {.host = "", .port = 5};
  policy.nodes = NodeRange(2, 2);
  policy.endpoints = {Endpoint{.host = "n7", .port = 29400}};
  return policy;
}

/// The hello of a node of the same job, with the same flags.
Hello hello_of(Incarnation node, const std::string& host) {
  const RendezvousPolicy same = policy_of_one_of_two();
  Hello hello;
  hello.job = same.job;
  hello.node.incarnation = node;
  hello.node.host = host;
  hello.nodes_min = same.nodes.min();
  hello.nodes_max = same.nodes.max();
  hello.lease = same.lease;
  return hello;
}

/// Why a caller was refused.
std::string refusal_in(const Effects& effects) {
  for (const Effect& effect : effects) {
    const auto* const send = std::get_if<effects::Send>(&effect);
    const auto* const no = send == nullptr ? nullptr : std::get_if<Refuse>(&send->message);
    if (no != nullptr) return no->why;
  }
  return "not refused";
}

/// A node whose connections are all refused, in virtual time.
class Alone {
 public:
  explicit Alone(RendezvousPolicy policy) : node_(std::move(policy)) {
    feed(RendezvousNode::Begin{});
  }

  void feed(const RendezvousNode::Event& event) {
    Effects effects;
    node_.apply(event, now_, effects);
    for (const Effect& effect : effects) {
      const auto* const note = std::get_if<effects::Note>(&effect);
      if (note != nullptr && note->is_for_all) said_.push_back(note->text);
      if (const auto* const call = std::get_if<effects::Call>(&effect)) called_ = call->link;
      const auto* const send = std::get_if<effects::Send>(&effect);
      const auto* const offer = send == nullptr ? nullptr : std::get_if<OfferRound>(&send->message);
      if (offer != nullptr) offered_hosts_.push_back(offer->hosts);
    }
  }

  void pass(Duration time) {
    const TimePoint until = now_ + time;
    while (now_ < until) {
      if (const Link called = std::exchange(called_, Link{}); called != Link{}) {
        feed(RendezvousNode::Closed{.link = called, .why = "refused"});
        continue;
      }
      now_ = std::min(node_.next_deadline().value_or(kNever), until);
      feed(RendezvousNode::Tick{});
    }
  }

  bool leads() const { return node_.coordinator() != nullptr; }
  JobStatus status() const {
    return job_status(node_.policy(), *node_.coordinator(), "1.2", {}, now_);
  }
  /// The messages for all consoles.
  const std::vector<std::string>& said() const { return said_; }
  /// The hosts in each offer of a round that it sent.
  const std::vector<std::string>& offered_hosts() const { return offered_hosts_; }

 private:
  RendezvousNode node_;
  TimePoint now_ = TimePoint() + 1h;
  Link called_{};
  std::vector<std::string> offered_hosts_;
  std::vector<std::string> said_;
};

/// What it prints in a minute.
std::vector<std::string> said_alone(bool bootstraps) {
  RendezvousPolicy policy = policy_of_one_of_two();
  policy.bootstraps = bootstraps;
  policy.if_alone = "; see where the others go";
  Alone node(policy);
  node.pass(1min);
  return node.said();
}

TEST(RendezvousNode, SaysOnceForWhichNodesItWaits) {
  EXPECT_THAT(
      said_alone(true),
      ElementsAre("waiting for nodes at n7:29400: 1 of 2 joined: n0; timeout 600 s; see where the "
                  "others go"));
}

TEST(RendezvousNode, SaysByWhichAddressesTheNodesAreHere) {
  RendezvousPolicy policy = policy_of_one_of_two();
  policy.nodes = NodeRange(3, 3);
  policy.node.node_rank = 0;
  Alone node(policy);
  node.pass(4s);
  Hello hello = hello_of(Incarnation{2}, "n1");
  hello.node.listens = {.host = "10.0.0.2", .port = 7};
  hello.node.node_rank = 2;
  hello.nodes_min = 3;
  hello.nodes_max = 3;
  node.feed(RendezvousNode::Received{.link = Link{2}, .message = hello});
  node.feed(RendezvousNode::Received{.link = Link{2}, .message = WorkerNews()});  // none run
  node.pass(2s);
  EXPECT_THAT(
      node.said(),
      ElementsAre(testing::HasSubstr(
          ": n0 (node rank 0), n1 (10.0.0.2:7, node rank 2); missing node ranks: 1; timeout ")));
}

// A long name was left out and a short one after it was not, so no worker could tell whose it was.
TEST(RendezvousNode, NamesTheHostsOfARoundUpToTheFirstThatDoesNotFit) {
  RendezvousPolicy policy = policy_of_one_of_two();
  policy.nodes = NodeRange(4, 4);
  Alone node(policy);
  std::uint64_t number = 2;
  for (const std::string& host :
       {std::string("n1"), "n2" + std::string(40'000, 'x'), std::string("n3")}) {
    Hello hello = hello_of(Incarnation{number}, host);
    hello.nodes_min = 4;
    hello.nodes_max = 4;
    node.feed(RendezvousNode::Received{.link = Link{number}, .message = hello});
    node.feed(RendezvousNode::Received{.link = Link{number}, .message = WorkerNews()});
    number += 2;
  }
  node.pass(4s);
  EXPECT_THAT(node.offered_hosts(), ElementsAre("n0,n1", "n0,n1", "n0,n1"));  // to each other node
}

TEST(RendezvousNode, SaysThatANodeIsNotFitAlsoIfItJoinsARoundThatRuns) {
  RendezvousPolicy policy = policy_of_one_of_two();
  policy.bootstraps = true;
  policy.nodes = NodeRange(1, 1);
  Alone node(policy);
  node.pass(1s);
  Hello hello = hello_of(Incarnation{2}, "n1");
  hello.nodes_min = 1;
  hello.nodes_max = 1;
  node.feed(RendezvousNode::Received{.link = Link{2}, .message = hello});
  WorkerNews news;
  news.unfit = "a GPU is lost";
  node.feed(RendezvousNode::Received{.link = Link{2}, .message = news});
  node.feed(RendezvousNode::Received{.link = Link{2}, .message = news});
  EXPECT_THAT(node.said(), ElementsAre("node n1 is not fit: a GPU is lost; it stands by"));
}

TEST(RendezvousNode, SaysOnceHowLongTheLastCallIs) {
  RendezvousPolicy policy = policy_of_one_of_two();
  policy.nodes = NodeRange(1, 2);
  policy.last_call = 30s;
  Alone node(policy);
  node.pass(20s);
  EXPECT_THAT(
      node.said(),
      ElementsAre(
          "1 of 1 to 2 nodes joined: n0; the job starts in 28 s, sooner if all join, later if one "
          "joins (--rdzv-conf last_call_timeout=); others can join at n7:29400"));
}

TEST(RendezvousNode, BeginsAgainWhatHadBegunOnceNoNodeOfItIsHeard) {
  Alone node(policy_of_one_of_two());
  EXPECT_TRUE(node.leads());
  node.feed(RendezvousNode::Received{
      .link = Link{2},
      .message = Redirect{
          .job = "j",
          .program = "",
          .role = "",
          .instance = {.bootstrap_leader = Incarnation{9}, .bootstrapped_ms = 1},
          .has_begun = true,
          .leadership = {.term = 3, .leader = Incarnation{9}},
          .leader = {.host = "n1", .port = 5}}});
  EXPECT_FALSE(node.leads());
  node.pass(29s);
  EXPECT_FALSE(node.leads());
  node.pass(2s);
  EXPECT_TRUE(node.leads());
  EXPECT_THAT(
      node.said(),
      ElementsAre(
          testing::StartsWith("still trying to reach job 'j': refused"),
          testing::HasSubstr(
              "; the wait ends when one of them is heard again, or none was for 30 s "
              "and the job starts from the beginning, or with status 75 in "),
          testing::EndsWith("was heard by n0 for 30 s; it starts from the beginning")));
  // Under a new incarnation, which the policy does not know.
  EXPECT_TRUE(node.status().nodes.at(0).is_leader);
}

TEST(RendezvousNode, SaysOnceThatItLooksForTheJobAndWhatTheLastTryCameTo) {
  EXPECT_THAT(
      said_alone(false), ElementsAre("still trying to reach job 'j': refused (timeout 600 s)"));
}

/// Where a node of job "j" calls that may find its leader at two ports, if `refusal` is the reply
/// at the first; followed by "ended" if the node gives up.
std::vector<std::string> calls_after(
    const Refuse& refusal, std::size_t ports = 2, bool endpoint_has_name = false) {
  RendezvousPolicy policy;
  policy.job = "j";
  policy.node.incarnation = Incarnation{1};
  policy.node.listens = {.host = "n1", .port = 5};
  policy.nodes = NodeRange(2, 2);
  policy.bootstraps = false;
  policy.endpoints = {{.host = "n0", .port = 10'042}, {.host = "n0", .port = 20'042}};
  policy.endpoints.resize(ports);
  policy.endpoint_has_name = endpoint_has_name;
  RendezvousNode rendezvous(policy);
  const TimePoint now = TimePoint() + 1h;
  std::vector<std::string> calls;
  Link called{};
  const auto feed = [&](const RendezvousNode::Event& event) {
    Effects effects;
    rendezvous.apply(event, now, effects);
    for (const Effect& effect : effects) {
      if (std::holds_alternative<effects::Finish>(effect)) calls.emplace_back("ended");
      const auto* const call = std::get_if<effects::Call>(&effect);
      if (call == nullptr) continue;
      called = call->link;
      calls.push_back(call->to.to_string());
    }
  };
  feed(RendezvousNode::Begin{});
  feed(RendezvousNode::Connected{.link = called});
  feed(RendezvousNode::Received{.link = called, .message = refusal});
  return calls;
}

TEST(RendezvousNode, LooksForItsJobBehindAnotherThatHasItsPort) {
  const Refuse stranger{.job = "k", .exit_status = 2, .why = "job 'k' runs there"};
  EXPECT_THAT(calls_after(stranger), ElementsAre("n0:10042", "n0:20042"));
  const Refuse of_another_version{.job = "", .exit_status = 2, .why = "version 7"};
  EXPECT_THAT(calls_after(of_another_version), ElementsAre("n0:10042", "n0:20042"));
}

TEST(RendezvousNode, EndsWhereAnotherJobIsAtAnAddressAndNotAtOnceWhereItIsByName) {
  const Refuse of_the_same_id{
      .job = "j", .exit_status = 2, .why = "b.py runs there", .instance = {}, .is_stranger = true};
  constexpr bool kByName = true;
  EXPECT_THAT(calls_after(of_the_same_id, 1), ElementsAre("n0:10042", "ended"));
  EXPECT_THAT(calls_after(of_the_same_id, 1, kByName), ElementsAre("n0:10042"));
  const Refuse own{.job = "j", .exit_status = 2, .why = "--nnodes differs"};
  EXPECT_THAT(calls_after(own, 1, kByName), ElementsAre("n0:10042", "ended"));
}

TEST(RendezvousNode, IsRefusedByItsOwnJobForGood) {
  const Refuse own{.job = "j", .exit_status = 2, .why = "--nnodes differs"};
  EXPECT_THAT(calls_after(own), ElementsAre("n0:10042", "ended"));
}

/// What a node does that does not bootstrap by itself: the types of its messages, by link.
class SearchingNode {
 public:
  explicit SearchingNode(bool hosts_if_called) : node_(policy(hosts_if_called)) {
    feed(RendezvousNode::Begin{});
  }

  void feed(const RendezvousNode::Event& event) {
    Effects effects;
    node_.apply(event, now_, effects);
    for (const Effect& effect : effects) {
      if (const auto* const call = std::get_if<effects::Call>(&effect)) called_ = call->link;
      const auto* const send = std::get_if<effects::Send>(&effect);
      if (send != nullptr && std::holds_alternative<Welcome>(send->message)) ++welcomes_;
    }
  }

  /// A node calls; it comes from a round of the job if the job `has_begun` for it.
  void called_by(std::uint64_t incarnation, bool has_begun) {
    Hello hello = hello_of(Incarnation{incarnation}, "n2");
    hello.node.listens = {.host = "n2", .port = 7};
    if (has_begun) {
      hello.voter_state.instance = {.bootstrap_leader = Incarnation{7}, .bootstrapped_ms = 0};
      hello.voter_state.committed.round = {.term = 1, .number = 1};
    }
    feed(RendezvousNode::Received{.link = Link{2}, .message = hello});
  }

  void became_host() {
    feed(RendezvousNode::BecameHost{.listens = {.host = "", .port = 29'400}, .master = {}});
  }

  bool leads() const { return node_.coordinator() != nullptr; }
  int welcomes() const { return welcomes_; }
  Link called() const { return called_; }
  const RendezvousNode& rendezvous() const { return node_; }

 private:
  static RendezvousPolicy policy(bool hosts_if_called) {
    RendezvousPolicy policy;
    policy.job = "j";
    policy.node.incarnation = Incarnation{1};
    policy.node.listens = {.host = "", .port = 5};
    policy.nodes = NodeRange(2, 2);
    policy.bootstraps = false;
    policy.hosts_if_called = hosts_if_called;
    policy.endpoints = {Endpoint{.host = "head", .port = 29'400}};
    return policy;
  }

  RendezvousNode node_;
  TimePoint now_ = TimePoint() + 1h;
  Link called_{};
  int welcomes_ = 0;
};

TEST(RendezvousNode, LeadsOnceTheEndpointIsItsOwn) {
  SearchingNode node(false);
  node.called_by(2, false);
  EXPECT_FALSE(node.leads());
  node.became_host();
  EXPECT_TRUE(node.leads());
  EXPECT_EQ(node.welcomes(), 1);  // the node that waited
  EXPECT_EQ(node.rendezvous().member().node().listens.port, 29'400);
}

TEST(RendezvousNode, BootstrapsNothingOnceItKnowsOfAnInstanceOfTheJob) {
  SearchingNode told(false);
  Redirect redirect;
  redirect.job = "j";
  redirect.leadership = {.term = 4, .leader = Incarnation{7}};
  redirect.instance = {.bootstrap_leader = Incarnation{7}, .bootstrapped_ms = 0};
  redirect.leader = {.host = "n3", .port = 9};
  redirect.has_begun = true;
  told.feed(RendezvousNode::Received{.link = Link{2}, .message = redirect});
  told.became_host();
  EXPECT_FALSE(told.leads());
  SearchingNode called(true);  // by a node that had a leader
  called.called_by(2, true);
  called.became_host();
  EXPECT_FALSE(called.leads());
  SearchingNode welcomed(false);
  welcomed.feed(RendezvousNode::Connected{.link = welcomed.called()});
  Welcome welcome;
  welcome.term = 1;
  welcome.leader.incarnation = Incarnation{9};
  welcome.instance = {.bootstrap_leader = Incarnation{9}, .bootstrapped_ms = 0};
  welcome.lease = 3s;
  welcomed.feed(RendezvousNode::Received{.link = welcomed.called(), .message = welcome});
  welcomed.became_host();
  EXPECT_FALSE(welcomed.leads());
}

TEST(RendezvousNode, LeadsIfACallToTheEndpointComesToNodeRankZero) {
  SearchingNode node(true);
  EXPECT_FALSE(node.leads());
  node.called_by(2, false);
  EXPECT_TRUE(node.leads());
  EXPECT_EQ(node.welcomes(), 1);
  SearchingNode by_itself(true);
  by_itself.called_by(1, false);  // its own call, through an address that no interface has
  EXPECT_TRUE(by_itself.leads());
}

/// What the bootstrap leader of a.py, which waits for the second of its nodes, does when another
/// node sends `message`.
Effects done_by_leader_of_a(const Message& message) {
  RendezvousPolicy policy;
  policy.job = "j";
  policy.node.incarnation = Incarnation{1};
  policy.node.host = "n0";
  policy.node.listens = {.host = "n0", .port = 5};
  policy.node.workload = {
      .program = "a.py", .role = "default", .command = "x/a.py --lr 1", .step = ""};
  policy.nodes = NodeRange(2, 2);
  RendezvousNode rendezvous(policy);
  const TimePoint now = TimePoint() + 1h;
  Effects effects;
  rendezvous.apply(RendezvousNode::Begin{}, now, effects);
  effects.clear();
  rendezvous.apply(RendezvousNode::Received{.link = Link{2}, .message = message}, now, effects);
  return effects;
}

template <class What>
const What* find(const Effects& effects) {
  for (const Effect& effect : effects)
    if (const auto* found = std::get_if<What>(&effect)) return found;
  return nullptr;
}

template <class What>
bool has(const Effects& effects) {
  return find<What>(effects) != nullptr;
}

// The first job's endpoint is a name, which may resolve to an old address for its nodes.
TEST(RendezvousNode, BelievesALeaderOfAnotherJobThatTheEndpointIsItsOwnOnlyAfterAWhile) {
  RendezvousPolicy policy;
  policy.job = "j";
  policy.node.incarnation = Incarnation{1};
  policy.node.listens = {.host = "n0", .port = 5};
  policy.node.workload.program = "a.py";
  policy.nodes = NodeRange(2, 2);
  policy.endpoints = {policy.node.listens};
  policy.endpoint_has_name = true;
  RendezvousNode rendezvous(policy);
  TimePoint now = TimePoint() + 1h;
  const auto feed = [&](const RendezvousNode::Event& event) {
    Effects effects;
    rendezvous.apply(event, now, effects);
    return effects;
  };
  Redirect redirect;
  redirect.job = "j";
  redirect.program = "b.py";
  redirect.leadership = {.term = 4, .leader = Incarnation{7}};
  redirect.instance = {.bootstrap_leader = Incarnation{7}, .bootstrapped_ms = 0};
  redirect.leader = {.host = "n3", .port = 9};
  redirect.has_begun = true;
  feed(RendezvousNode::Begin{});
  feed(RendezvousNode::Received{.link = Link{2}, .message = redirect});
  EXPECT_NE(rendezvous.coordinator(), nullptr);
  now += 7s;
  const Effects later = feed(RendezvousNode::Received{.link = Link{4}, .message = redirect});
  EXPECT_EQ(rendezvous.coordinator(), nullptr);
  const auto is_call = [](const Effect& effect) {
    return std::holds_alternative<effects::Call>(effect);
  };
  const auto call = std::ranges::find_if(later, is_call);
  ASSERT_NE(call, later.end());
  const auto called = std::get<effects::Call>(*call);
  EXPECT_EQ(called.to, redirect.leader);
  feed(RendezvousNode::Connected{.link = called.link});
  const Refuse refusal{
      .job = "j", .exit_status = 2, .why = "b.py runs there", .instance = {}, .is_stranger = true};
  const Effects refused = feed(RendezvousNode::Received{.link = called.link, .message = refusal});
  const auto is_end = [](const Effect& effect) {
    return std::holds_alternative<effects::Finish>(effect);
  };
  const auto end = std::ranges::find_if(refused, is_end);
  ASSERT_NE(end, refused.end());
  EXPECT_EQ(std::get<effects::Finish>(*end).exit_status, 2);
}

TEST(RendezvousNode, RefusesANodeOfAnotherProgramOrRoleAndNamesBoth) {
  Hello hello = hello_of(Incarnation{2}, "n1");
  hello.node.workload = {.program = "b.py", .role = "default", .command = "b.py", .step = ""};
  const auto why = [&hello] { return refusal_in(done_by_leader_of_a(hello)); };
  EXPECT_THAT(
      why(),
      testing::StartsWith(
          "job 'j' of a.py (on n0: x/a.py --lr 1) runs there, not b.py (on n1: b.py); "));
  hello.node.workload.program = "a.py";
  hello.node.workload.role = "server";
  EXPECT_THAT(why(), testing::HasSubstr("not a.py with --role server (on n1: b.py); "));
  hello.node.workload.role = "default";
  EXPECT_EQ(why(), "not refused");
  // Two steps that are meant to be one job, but have different flags.
  hello.node.workload.step = "812.1";
  hello.nodes_max = 3;
  EXPECT_EQ(
      why(),
      "--nnodes 2:3 on n1 in Slurm step 812.1, but 2:2 on the leader n0; give the same on every "
      "node");
  hello.node.workload.program = "b.py";
  EXPECT_THAT(why(), testing::HasSubstr("not b.py (on n1 in Slurm step 812.1: b.py); "));
}

// Both had the same --rdzv-id and endpoint, and --nnodes for the nodes of one of them: each got
// nodes of the other, and the remaining nodes could not start.
TEST(RendezvousNode, RefusesANodeOfAnotherStepThatIsAJobOfItsOwnAndNamesBoth) {
  const auto answer = [](bool is_here_complete, bool is_there_complete) {
    RendezvousPolicy policy = policy_of_one_of_two();
    policy.node.workload.step = "812.0";
    policy.node.workload.step_is_complete = is_here_complete;
    RendezvousNode rendezvous(policy);
    const TimePoint now = TimePoint() + 1h;
    Effects done;
    rendezvous.apply(RendezvousNode::Begin{}, now, done);
    done.clear();
    Hello hello = hello_of(Incarnation{2}, "n1");
    hello.node.workload.step = "812.1";
    hello.node.workload.step_is_complete = is_there_complete;
    rendezvous.apply(RendezvousNode::Received{.link = Link{2}, .message = hello}, now, done);
    return refusal_in(done);
  };
  EXPECT_THAT(
      answer(true, true),
      testing::StartsWith(
          "job 'j' of Slurm step 812.0 runs there (on n0), and has all its nodes in "
          "that step, as step 812.1 has; "));
  EXPECT_EQ(answer(true, false), "not refused") << "it adds a node in place of one that was lost";
  EXPECT_EQ(answer(false, false), "not refused") << "a step for each node";
}

TEST(RendezvousNode, WhoseEndpointIsTakenTellsAllThatCallAndEnds) {
  RendezvousPolicy policy = policy_of_one_of_two();
  policy.nodes = NodeRange(3, 3);
  policy.expected = 3;
  policy.bootstraps = false;
  policy.cannot_host = "port 29400 is used by nc (pid 7)";
  policy.endpoints = {{.host = "n0", .port = 29'400}};
  RendezvousNode rendezvous(policy);
  TimePoint now = TimePoint() + 1h;
  Effects done;
  const auto feed = [&](const RendezvousNode::Event& event) {
    done.clear();
    rendezvous.apply(event, now, done);
  };
  const auto call_by = [&](Incarnation caller, Link link, std::optional<int> checks_port = 29'400) {
    Hello hello = hello_of(caller, "n1");
    hello.checks_port = checks_port;
    feed(RendezvousNode::Received{.link = link, .message = hello});
    return refusal_in(done);
  };
  feed(RendezvousNode::Begin{});
  EXPECT_FALSE(has<effects::Call>(done));
  EXPECT_EQ(call_by(Incarnation{2}, Link{2}), "n0: port 29400 is used by nc (pid 7)");
  EXPECT_EQ(call_by(Incarnation{2}, Link{4}), "n0: port 29400 is used by nc (pid 7)");
  EXPECT_FALSE(has<effects::Finish>(done));  // the third one may come
  // A job with another endpoint on this machine, or whose endpoint is this node's port for
  // refusals.
  for (const auto checks_port : {std::optional<int>(29'500), std::optional<int>()}) {
    EXPECT_EQ(call_by(Incarnation{9}, Link{8}, checks_port), "not refused");
    EXPECT_TRUE(has<effects::Close>(done));
  }
  now += 1s;
  feed(RendezvousNode::Tick{});
  EXPECT_FALSE(has<effects::Finish>(done));
  EXPECT_EQ(rendezvous.next_deadline(), TimePoint() + 1h + policy.refusal_wait);
  call_by(Incarnation{3}, Link{6});
  EXPECT_TRUE(has<effects::Finish>(done));
}

TEST(RendezvousNode, DoesNotWaitLongForThoseWhoAreToBeToldThatItsEndpointIsTaken) {
  RendezvousPolicy policy = policy_of_one_of_two();
  policy.cannot_host = "port 29400 is used by nc (pid 7)";
  RendezvousNode rendezvous(policy);
  Effects done;
  rendezvous.apply(RendezvousNode::Begin{}, TimePoint(), done);
  EXPECT_FALSE(has<effects::Finish>(done));
  rendezvous.apply(RendezvousNode::Tick{}, TimePoint() + policy.refusal_wait, done);
  EXPECT_TRUE(has<effects::Finish>(done));
}

/// Node n1 of job "j", which n0 leads, with its last effects and the endpoints that it has called.
struct Caller {
  explicit Caller(NodeRange nodes) : Caller(policy(nodes)) {}
  explicit Caller(RendezvousPolicy policy) : rendezvous(std::move(policy)) {
    feed(RendezvousNode::Begin{});
  }

  static RendezvousPolicy policy(NodeRange nodes) {
    RendezvousPolicy policy;
    policy.job = "j";
    policy.node.incarnation = Incarnation{1};
    policy.node.listens = {.host = "n1", .port = 5};
    policy.nodes = nodes;
    policy.bootstraps = false;
    policy.endpoints = {{.host = "n0", .port = 29'400}};
    return policy;
  }

  void feed(const RendezvousNode::Event& event) {
    done.clear();
    rendezvous.apply(event, now, done);
    for (const Effect& effect : done) {
      const auto* const call = std::get_if<effects::Call>(&effect);
      if (call == nullptr) continue;
      called = call->link;
      calls.push_back(call->to.to_string());
    }
  }

  /// Advances to its next deadline, while nothing else happens.
  void tick() {
    now = rendezvous.next_deadline().value_or(kNever);
    feed(RendezvousNode::Tick{});
  }

  void connected() { feed(RendezvousNode::Connected{.link = called}); }
  void receive(const Message& message) {
    feed(RendezvousNode::Received{.link = called, .message = message});
  }

  RendezvousNode rendezvous;
  TimePoint now = TimePoint() + 1h;
  Effects done;  // of the last event
  Link called{};
  std::vector<std::string> calls;
};

TEST(RendezvousNode, ANewcomerAsksWhereItWouldBeToldThatTheEndpointIsTaken) {
  RendezvousPolicy policy = Caller::policy(NodeRange(2, 2));
  policy.refusals = {{.host = "n0", .port = 12'523}};
  Caller node(policy);
  node.feed(RendezvousNode::Closed{.link = node.called, .why = "refused"});
  node.now += 1s;
  node.feed(RendezvousNode::Tick{});
  node.feed(RendezvousNode::Closed{.link = node.called, .why = "refused"});
  node.now += 1s;
  node.feed(RendezvousNode::Tick{});
  EXPECT_THAT(node.calls, testing::Contains("n0:12523"));
  EXPECT_EQ(node.calls.front(), "n0:29400");
}

// It named the other port, which no user had given.
TEST(RendezvousNode, ANewcomerSaysWhyItsCallsToTheEndpointFail) {
  RendezvousPolicy policy = Caller::policy(NodeRange(2, 2));
  policy.refusals = {{.host = "n0", .port = 12'523}};
  Caller node(policy);
  std::vector<std::string> said;
  for (int step = 0; step < 1'000 && said.empty(); ++step) {
    if (has<effects::Call>(node.done)) {
      node.feed(RendezvousNode::Closed{
          .link = node.called, .why = "no answer from " + node.calls.back()});
    } else {
      node.tick();
    }
    for (const Effect& effect : node.done) {
      if (const auto* const note = std::get_if<effects::Note>(&effect)) said.push_back(note->text);
    }
  }
  EXPECT_THAT(node.calls, testing::Contains("n0:12523"));
  EXPECT_THAT(said, ElementsAre(testing::HasSubstr("no answer from n0:29400")));
}

// The job that had refused it ended meanwhile: it waited ten minutes, and had last printed that it
// looks for 6 s.
TEST(RendezvousNode, ANewcomerThatWasRefusedSaysThatItKeepsWaiting) {
  RendezvousPolicy policy = Caller::policy(NodeRange(2, 2));
  policy.endpoint_has_name = true;
  Caller node(policy);
  node.connected();
  node.receive(Refuse{
      .job = "other",
      .exit_status = 2,
      .why = "job 'other' runs there",
      .instance = {},
      .is_stranger = true});
  std::vector<std::string> said;
  while (said.size() < 2 && !has<effects::Finish>(node.done)) {
    if (const auto* const note = find<effects::Note>(node.done)) said.push_back(note->text);
    if (has<effects::Call>(node.done)) {
      node.feed(RendezvousNode::Closed{.link = node.called, .why = "Connection refused"});
    } else {
      node.tick();
    }
  }
  EXPECT_THAT(
      said,
      ElementsAre(
          testing::StartsWith("job 'other' runs there; the name may lead to an old address"),
          testing::StartsWith("still trying to reach job 'j': Connection refused")));
}

// A leader that was stopped reported at the end of a job that a node fell silent, although that
// node had run all along.
TEST(RendezvousNode, ANodeIsNotSilentIfItsHostHasJoinedAgain) {
  RendezvousPolicy policy = policy_of_one_of_two();
  policy.nodes = NodeRange(3, 3);
  RendezvousNode leader(policy);
  TimePoint now = TimePoint() + 1h;
  std::vector<std::string> silent;
  const auto feed = [&](const RendezvousNode::Event& event) {
    Effects done;
    leader.apply(event, now, done);
    for (const Effect& effect : done) {
      const auto* const absence = std::get_if<effects::Absence>(&effect);
      if (absence != nullptr && !absence->is_over) silent.push_back(absence->host);
    }
  };
  const auto join = [&](Link link, Incarnation node, const std::string& host) {
    Hello hello = hello_of(node, host);
    hello.nodes_min = 3;
    hello.nodes_max = 3;
    feed(RendezvousNode::Received{.link = link, .message = hello});
  };
  feed(RendezvousNode::Begin{});
  join(Link{2}, Incarnation{2}, "n1");
  join(Link{4}, Incarnation{3}, "n2");
  now += 1s;
  join(Link{6}, Incarnation{4}, "n1");
  now += policy.lease + policy.margin - 1ms;
  feed(RendezvousNode::Tick{});
  EXPECT_THAT(silent, ElementsAre("n2"));
}

// Where it asks whether the endpoint is taken.
TEST(RendezvousNode, ANodeThatANodeOfItsOwnJobRefusesEndsInSilence) {
  const auto ends_in_silence = [](bool is_stranger) {
    RendezvousPolicy policy = Caller::policy(NodeRange(2, 2));
    policy.refusals = policy.endpoints;
    Caller node(policy);
    node.connected();
    node.receive(Refuse{
        .job = "j", .exit_status = 75, .why = "no", .instance = {}, .is_stranger = is_stranger});
    const auto* end = find<effects::Finish>(node.done);
    return end == nullptr ? std::optional<bool>() : end->is_reported_elsewhere;
  };
  EXPECT_EQ(ends_in_silence(false), true);
  EXPECT_EQ(ends_in_silence(true), std::nullopt) << "a program of another job by chance";
}

// A hundred nodes of a loop, each a separate step, waited ten minutes for a first one that had
// found its port taken, and ended.
TEST(RendezvousNode, UnderSlurmAnEndpointThatIsNotADdprunEndsTheWait) {
  const auto ends_after = [](bool ends_at_foreign, bool is_foreign) {
    RendezvousPolicy policy = Caller::policy(NodeRange(2, 2));
    policy.ends_at_foreign = ends_at_foreign;
    Caller node(policy);
    const TimePoint begun = node.now;
    while (!has<effects::Finish>(node.done)) {
      if (has<effects::Call>(node.done)) {
        node.connected();
        node.feed(RendezvousNode::Closed{
            .link = node.called, .why = "it closed the connection", .is_foreign = is_foreign});
      } else {
        node.tick();
      }
    }
    return std::pair(find<effects::Finish>(node.done)->exit_status, node.now - begun);
  };
  const Duration wait = RendezvousPolicy().refusal_wait;
  const auto [status, duration] = ends_after(true, true);
  EXPECT_EQ(status, 75);
  EXPECT_GE(duration, wait);
  EXPECT_LT(duration, wait + 1s);
  EXPECT_GE(ends_after(true, false).second, RendezvousPolicy().join_timeout);
  EXPECT_GE(ends_after(false, true).second, RendezvousPolicy().join_timeout) << "behind a proxy";
}

// Else both would wait for the whole join timeout, and neither would print why.
TEST(RendezvousNode, WhoWaitsWithoutALeaderRefusesOtherFlagsToo) {
  Caller node(NodeRange(2, 2));
  Hello hello = hello_of(Incarnation{2}, "n2");
  hello.max_restarts = 3;
  node.feed(RendezvousNode::Received{.link = Link{2}, .message = hello});
  const auto* const sent = find<effects::Send>(node.done);
  ASSERT_NE(sent, nullptr);
  const auto* const no = std::get_if<Refuse>(&sent->message);
  ASSERT_NE(no, nullptr);
  EXPECT_EQ(no->exit_status, 2);
  EXPECT_THAT(no->why, testing::StartsWith("--max-restarts 3 on n2, but 0 on "));
  const auto* const note = find<effects::Note>(node.done);
  ASSERT_NE(note, nullptr);
  EXPECT_TRUE(note->is_for_all);
}

constexpr RoundId kRound{.term = 1, .number = 1};
constexpr Instance kInstance{.bootstrap_leader = Incarnation{9}, .bootstrapped_ms = 1};

Welcome welcome_by(const Endpoint& leader) {
  Welcome welcome;
  welcome.term = 1;
  welcome.leader.incarnation = Incarnation{9};
  welcome.leader.listens = leader;
  welcome.instance = kInstance;
  welcome.lease = 3s;
  return welcome;
}

/// A node of two, led by the one at `leader`, where the node calls.
void start_round(Caller& node, const Endpoint& leader) {
  node.connected();
  node.receive(welcome_by(leader));
  node.receive(HeartbeatReply{.number = 1, .grant = 3s, .round = {}, .voter_count = 0, .next = 1s});
  OfferRound offer;
  offer.round = kRound;
  offer.place = Place{.group_rank = 1, .group_size = 2, .first_rank = 1, .world_size = 2};
  offer.nodes = 2;
  offer.voter_count = 2;
  node.receive(offer);
  node.receive(StartRound{.round = kRound});
  ASSERT_TRUE(has<effects::StartWorkers>(node.done));
}

// If all nodes share a console, the next leader reports that the leader is lost. Here the old
// leader is back.
TEST(RendezvousNode, SaysWhyItsWorkersWereKilledIfNobodyElseLeadsNext) {
  Caller node(NodeRange(2, 2));
  const Endpoint leader{.host = "n7", .port = 7};
  start_round(node, leader);
  WorkerNews running;
  running.round = kRound;
  running.state = WorkersState::kRunning;
  node.feed(RendezvousNode::Workers{.news = running});
  for (int step = 0; step < 1'000 && !has<effects::KillWorkers>(node.done); ++step) {
    node.tick();
  }
  const auto* const kill = find<effects::KillWorkers>(node.done);
  ASSERT_NE(kill, nullptr);
  EXPECT_TRUE(kill->is_reported_later);
  EXPECT_FALSE(has<effects::Note>(node.done));
  const std::string why = kill->why;
  while (!has<effects::Call>(node.done) || node.calls.back() != "n7:7") {
    node.tick();
  }
  node.connected();
  node.receive(welcome_by(leader));
  EXPECT_FALSE(has<effects::Note>(node.done));
  node.receive(
      HeartbeatReply{.number = 1, .grant = 3s, .round = kRound, .voter_count = 2, .next = 1s});
  const auto* const note = find<effects::Note>(node.done);
  ASSERT_NE(note, nullptr);
  EXPECT_EQ(note->text, why + ", so the workers of this node were killed");
  EXPECT_TRUE(note->is_for_all);
}

// A node that lost its memory may begin the job again there, while this one waits for a reply from
// another node.
TEST(RendezvousNode, ASurvivorCallsTheEndpointWhateverItWaitsFor) {
  Caller node(NodeRange(2, 2));
  start_round(node, {.host = "n7", .port = 7});
  WorkerNews stopped;
  stopped.round = kRound;
  node.feed(RendezvousNode::Workers{.news = stopped});
  node.feed(RendezvousNode::Closed{.link = node.called, .why = "reset"});
  EXPECT_EQ(node.calls.back(), "n7:7");  // which does not answer from here on
  node.now += 4s;
  node.feed(RendezvousNode::Tick{});
  std::optional<Link> notice;
  for (int step = 0; step < 10 && !notice; ++step) {
    node.now += 100ms;
    node.feed(RendezvousNode::Tick{});
    for (const Effect& effect : node.done) {
      const auto* const call = std::get_if<effects::Call>(&effect);
      const bool is_notice =
          call != nullptr && static_cast<std::uint64_t>(call->link) > std::uint64_t{1} << 62U;
      if (!is_notice) continue;
      notice = call->link;
      EXPECT_EQ(call->to.to_string(), "n0:29400");
    }
  }
  ASSERT_TRUE(notice.has_value());
  node.feed(RendezvousNode::Connected{.link = *notice});
  const auto* const sent = find<effects::Send>(node.done);
  ASSERT_NE(sent, nullptr);
  const auto* const survivor = std::get_if<Survivor>(&sent->message);
  ASSERT_NE(survivor, nullptr);
  EXPECT_EQ(survivor->instance, kInstance);
  EXPECT_TRUE(has<effects::Close>(node.done));
}

// The leader ends the first connection once it has read the hello on the second. A node that saw
// that end before the reply closed both, and then heard nothing more of a job that was done.
TEST(RendezvousNode, StaysOnItsSecondConnectionThoughTheFirstEndsBeforeTheLeaderAnswersThere) {
  Caller node(NodeRange(2, 2));
  start_round(node, {.host = "n7", .port = 7});
  const Link first = node.called;
  while (node.called == first) {
    node.tick();
  }
  node.connected();
  EXPECT_TRUE(std::holds_alternative<Hello>(find<effects::Send>(node.done)->message));
  node.feed(RendezvousNode::Closed{.link = first, .why = "the other side has ended"});
  EXPECT_FALSE(has<effects::Close>(node.done));
  EXPECT_FALSE(has<effects::Call>(node.done));
  node.receive(VerdictNews{.verdict = {.exit_status = 0, .why = ""}, .is_final = true});
  EXPECT_FALSE(has<effects::Send>(node.done)) << "before it is welcome";
  node.receive(welcome_by({.host = "n7", .port = 7}));
  node.receive(VerdictNews{.verdict = {.exit_status = 0, .why = ""}, .is_final = true});
  EXPECT_TRUE(std::holds_alternative<VerdictHeard>(find<effects::Send>(node.done)->message));
}

TEST(RendezvousNode, ANodeThatWasToldOfAnInstanceJoinsAnotherOnlyOnceThatHasBegun) {
  for (const bool has_begun : {false, true}) {
    Caller node(NodeRange(2, 2));
    Redirect told;
    told.job = "j";
    told.instance = kInstance;
    told.has_begun = true;
    told.leadership = {.term = 1, .leader = Incarnation{9}};
    told.leader = {.host = "n7", .port = 7};
    node.connected();
    node.receive(told);
    while (node.calls.back() != "n7:7") {
      node.now += 1s;
      node.feed(RendezvousNode::Tick{});
    }
    node.feed(RendezvousNode::Closed{.link = node.called, .why = "refused"});
    while (node.calls.back() == "n7:7") {
      node.now += 1s;
      node.feed(RendezvousNode::Tick{});
    }
    node.connected();
    EXPECT_EQ(std::get<Hello>(find<effects::Send>(node.done)->message).awaits, kInstance);
    Welcome welcome;
    welcome.term = 1;
    welcome.leader.incarnation = Incarnation{8};
    welcome.instance = {.bootstrap_leader = Incarnation{8}, .bootstrapped_ms = 2};
    welcome.has_begun = has_begun;
    welcome.lease = 3s;
    node.receive(welcome);
    EXPECT_EQ(has<effects::Close>(node.done), !has_begun);
    EXPECT_EQ(has<effects::OpenLine>(node.done), has_begun);
  }
}

TEST(RendezvousNode, WhosePlaceIsTakenEndsItsWorkersBeforeItself) {
  Caller node(NodeRange(2, 2));
  start_round(node, {.host = "n0", .port = 29'400});

  // It is cut off; meanwhile another node has taken its node rank.
  node.feed(RendezvousNode::Closed{.link = node.called, .why = "reset"});
  ASSERT_TRUE(has<effects::Call>(node.done));
  node.connected();
  node.receive(Refuse{.job = "j", .exit_status = 2, .why = "taken", .instance = kInstance});
  EXPECT_TRUE(has<effects::StopWorkers>(node.done));
  EXPECT_FALSE(has<effects::Finish>(node.done));
  WorkerNews stopped;
  stopped.round = kRound;
  node.feed(RendezvousNode::Workers{.news = stopped});
  EXPECT_TRUE(has<effects::Finish>(node.done));
}

TEST(RendezvousNode, CallsThoseWhoHadNotComeToALeaderThatWasLostAtOnce) {
  Caller node(NodeRange(2, 4));
  const auto successor = [](std::uint64_t number) {
    return Successor{
        .node = Incarnation{number}, .at = {.host = fmt::format("n{}", number), .port = 5}};
  };
  Welcome welcome;
  welcome.instance = {.bootstrap_leader = Incarnation{9}, .bootstrapped_ms = 1};
  welcome.lease = 3s;
  const auto lead = [&](std::int64_t term, std::uint64_t leader) {
    welcome.term = term;
    welcome.leader.incarnation = Incarnation{leader};
    welcome.leader.listens = {.host = fmt::format("n{}", leader), .port = 5};
    node.connected();
    node.receive(welcome);
  };
  welcome.successors = {successor(2), successor(3), successor(1)};
  lead(1, 9);
  OfferRound offer;
  offer.round = {.term = 1, .number = 1};
  offer.place = Place{.group_rank = 3, .group_size = 4, .first_rank = 3, .world_size = 4};
  offer.nodes = 4;
  offer.voter_count = 4;
  offer.successors = welcome.successors;
  node.receive(offer);
  node.feed(RendezvousNode::Goodbye{.leadership = {.term = 1, .leader = Incarnation{9}}});
  ASSERT_EQ(node.calls.back(), "n2:5");
  welcome.successors = {successor(1)};  // the first that has come to it
  lead(2, 2);
  node.calls.clear();
  node.feed(RendezvousNode::Goodbye{.leadership = {.term = 2, .leader = Incarnation{2}}});
  for (const TimePoint end = node.now + 5s; node.now < end;) {
    node.now = node.rendezvous.next_deadline().value_or(end);
    node.feed(RendezvousNode::Tick{});
  }
  EXPECT_THAT(node.calls, testing::Contains("n3:5"));
}

TEST(RendezvousNode, GivesTheEndpointUpToAnotherProgramOnlyIfThatOneHasBegun) {
  Redirect redirect{
      .job = "j",
      .program = "b.py",
      .role = "default",
      .instance = {.bootstrap_leader = Incarnation{9}, .bootstrapped_ms = 1},
      .has_begun = false,
      .leadership = {.term = 2, .leader = Incarnation{9}},
      .leader = {.host = "n7", .port = 7}};
  EXPECT_FALSE(has<effects::Call>(done_by_leader_of_a(redirect)));
  redirect.has_begun = true;  // it is refused there, and ends
  EXPECT_TRUE(has<effects::Call>(done_by_leader_of_a(redirect)));
}

/// A job of one node, whose workers fail.
struct FailingNode : Caller {
  explicit FailingNode(int max_restarts = 9) : Caller(policy(max_restarts)) { run(); }

  static RendezvousPolicy policy(int max_restarts) {
    RendezvousPolicy policy = Caller::policy(NodeRange(1, 1));
    policy.bootstraps = true;
    policy.counts_failures = true;
    policy.max_restarts = max_restarts;
    policy.endpoints.clear();
    return policy;
  }

  /// Until the workers of the next round run.
  void run() {
    while (!has<effects::StartWorkers>(done)) {
      now = rendezvous.next_deadline().value();
      feed(RendezvousNode::Tick{});
    }
    WorkerNews running;
    running.round = find<effects::StartWorkers>(done)->round;
    running.state = WorkersState::kRunning;
    feed(RendezvousNode::Workers{.news = running});
    told = std::move(running);
  }

  void fail(FailureNews failure) {
    failure.pid = ++pid;
    told.state = WorkersState::kFailed;
    told.failure = std::move(failure);
    feed(RendezvousNode::Workers{.news = told});
  }
  void stop() {
    told.state = WorkersState::kStopped;
    feed(RendezvousNode::Workers{.news = told});
  }

  /// One is killed; the next round runs.
  void lose_worker() {
    FailureNews killed;
    killed.signal = 9;
    fail(killed);
    stop();
    run();
  }

  /// One exits soon after its start.
  void crash() {
    FailureNews exited;
    exited.exit_status = 1;
    fail(exited);
  }
  void say(const std::string& line) {
    told.failure->last_line = TextLine{.text = line};
    feed(RendezvousNode::Workers{.news = told});
  }

  std::string why_unfit() const {
    return rendezvous.coordinator()->why_unfit(rendezvous.coordinator()->nodes().begin()->second);
  }

  WorkerNews told;
  int pid = 7;
};

TEST(RendezvousNode, ChargesANodeWithTheFailuresOfTheLastHourAlone) {
  FailingNode node;
  node.lose_worker();
  node.lose_worker();
  EXPECT_EQ(node.why_unfit(), "");
  node.now += 61min;
  node.lose_worker();
  node.lose_worker();
  EXPECT_EQ(node.why_unfit(), "");
  node.lose_worker();
  EXPECT_EQ(node.why_unfit(), "3 failures within an hour began there");
}

TEST(RendezvousNode, HoldsTheSecondCrashOnStartUntilWhatItSaidIsKnown) {
  for (const std::string line : {"KeyError: 'x'", "OSError: no such file", ""}) {
    FailingNode node;
    node.crash();
    ASSERT_TRUE(has<effects::StopWorkers>(node.done));  // the first one's line decides nothing
    node.say("KeyError: 'x'");
    node.stop();
    node.run();
    node.crash();
    EXPECT_FALSE(has<effects::StopWorkers>(node.done));
    node.stop();
    EXPECT_FALSE(has<effects::StopWorkers>(node.done));
    if (line.empty()) {
      EXPECT_EQ(node.rendezvous.next_deadline(), node.now + 500ms);
      node.now += 500ms;
      node.feed(RendezvousNode::Tick{});
    } else {
      node.say(line);
    }
    const auto* const stop = find<effects::StopWorkers>(node.done);
    ASSERT_NE(stop, nullptr) << line;
    EXPECT_EQ(stop->order.crashes, 2);
    EXPECT_EQ(stop->order.repeats, line != "OSError: no such file");
    EXPECT_EQ(stop->order.pause, 1s);
  }
}

// The first was the last restart, so whether the next would fail alike does not matter.
TEST(RendezvousNode, HoldsNoCrashOnStartThatNoRestartCanFollow) {
  FailingNode node(1);
  node.crash();
  node.say("KeyError: 'x'");
  node.stop();
  node.run();
  node.crash();
  EXPECT_NE(node.rendezvous.coordinator()->verdict(), std::nullopt);
}

/// A node that has called its leader, and hears from it and from others.
class Called {
 public:
  Called() : node_(policy_of_caller()) {
    apply(RendezvousNode::Begin{});
    for (const Effect& effect : effects_) {
      if (const auto* const call = std::get_if<effects::Call>(&effect)) leader_ = call->link;
    }
    apply(RendezvousNode::Connected{.link = leader_});
  }

  void hear(Link link, Message message) {
    apply(RendezvousNode::Received{.link = link, .message = std::move(message)});
  }
  void welcome(std::int64_t term) {
    Welcome welcome;
    welcome.instance = kInstance;
    welcome.term = term;
    welcome.leader.incarnation = Incarnation{9};
    welcome.leader.listens = {.host = "10.0.0.9", .port = 29400};
    welcome.lease = 3s;
    hear(leader_, welcome);
  }

  bool closes(Link link) const {
    return std::ranges::any_of(effects_, [link](const Effect& effect) {
      const auto* const close = std::get_if<effects::Close>(&effect);
      return close != nullptr && close->link == link;
    });
  }
  bool calls(const Endpoint& other) const {
    return std::ranges::any_of(effects_, [&other](const Effect& effect) {
      const auto* const call = std::get_if<effects::Call>(&effect);
      return call != nullptr && call->to == other;
    });
  }
  Link leader() const { return leader_; }
  const VoterState& state() const { return node_.member().voter_state(); }

  static constexpr Instance kInstance{.bootstrap_leader = Incarnation{9}, .bootstrapped_ms = 1};

 private:
  static RendezvousPolicy policy_of_caller() {
    RendezvousPolicy policy = policy_of_one_of_two();
    policy.bootstraps = false;
    return policy;
  }

  /// Keeps what follows from this event alone.
  void apply(const RendezvousNode::Event& event) {
    effects_.clear();
    node_.apply(event, TimePoint() + 1h, effects_);
  }

  RendezvousNode node_;
  Effects effects_;
  Link leader_{};
};

constexpr std::int64_t kLargestTerm = 1'000'000'000'000'000;  // that a message can hold

// A term of 10^15 stopped all elections: no node could read the next one.
TEST(RendezvousNode, ATermWhoseSuccessorsDoNotFitIsNotBelievedByANewcomer) {
  Called node;
  node.welcome(kLargestTerm);
  EXPECT_TRUE(node.closes(node.leader()));
  EXPECT_EQ(node.state().term, 0);
}

TEST(RendezvousNode, ATermFarAheadIsNotBelievedByANodeThatKnowsTheJob) {
  Called node;
  node.welcome(7);
  EXPECT_FALSE(node.closes(node.leader()));
  const Endpoint elsewhere{.host = "10.0.0.66", .port = 5};
  const auto hear_of_leader_in = [&](Link link, std::int64_t term) {
    node.hear(
        link,
        Redirect{
            .job = "j",
            .program = "",
            .role = "",
            .instance = Called::kInstance,
            .has_begun = true,
            .leadership = {.term = term, .leader = Incarnation{66}},
            .leader = elsewhere});
  };
  hear_of_leader_in(Link{2}, 1'000'008);
  EXPECT_TRUE(node.closes(Link{2}));
  EXPECT_FALSE(node.calls(elsewhere));
  OfferRound offer;
  offer.round = {.term = 7, .number = 1'000'001};
  node.hear(node.leader(), offer);
  EXPECT_TRUE(node.closes(node.leader()));
  EXPECT_EQ(node.state().offered.round, RoundId());
  EXPECT_EQ(node.state().term, 7);
}

TEST(FarAhead, FindsTheLargestOfEachNumberWhereverItStands) {
  Hello hello;
  hello.voter_state.term = 3;
  hello.voter_state.undecided.resize(2);
  hello.voter_state.undecided[1].round = {.term = 5, .number = 8};
  hello.voter_state.progress.attempt = 4;
  EXPECT_EQ(counts_in(hello), (Counts{.term = 5, .round = 8, .restarts = 4}));
  PreVote pre_vote;
  pre_vote.dead.of.term = 6;
  EXPECT_EQ(counts_in(pre_vote), (Counts{.term = 6, .round = 0, .restarts = 0}));
  StopRound stop;
  stop.restarts_used = 9;
  EXPECT_EQ(counts_in(stop), (Counts{.term = 0, .round = 0, .restarts = 9}));
  EXPECT_EQ(counts_in(Heartbeat{.number = 9, .heard = 9}), Counts());
}

// Each line that was dropped without a proof stayed in the leader's memory as long as it led.
TEST(RendezvousNode, ALeaderForgetsTheLifelinesThatHaveGone) {
  RendezvousPolicy policy = policy_of_one_of_two();
  policy.bootstraps = true;
  RendezvousNode leader(policy);
  Effects effects;
  const TimePoint now = TimePoint() + 1h;
  leader.apply(RendezvousNode::Begin{}, now, effects);
  ASSERT_NE(leader.coordinator(), nullptr);
  const Leadership here{.term = leader.coordinator()->term(), .leader = policy.node.incarnation};
  for (std::uint64_t i = 100; i < 200; ++i) {
    const Incarnation node{i};
    leader.apply(RendezvousNode::LifelineOpened{.node = node, .leadership = here}, now, effects);
    if (i % 2 == 0) leader.apply(RendezvousNode::LifelineEnded{.node = node}, now, effects);
    if (i % 2 == 1) leader.apply(RendezvousNode::LifelineDropped{.node = node}, now, effects);
  }
  EXPECT_EQ(leader.coordinator()->lifelines(), 0U);
}

}  // namespace
}  // namespace ddprun
