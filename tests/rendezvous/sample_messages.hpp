#pragma once

// One of each message, with every optional field given; and a status.

#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/status.hpp"

#include <vector>

namespace ddprun::testing {

inline NodeInfo sample_node() {
  return {
      .incarnation = Incarnation{0x00F3'0000'0000'00A1},
      .host = "n1",
      .listens = {.host = "fe80::1%eth0", .port = 29'500},
      .node_rank = 3,
      .workers = 8,
      .machine = {.boot = "b0", .id = "d1"},
      .workload = {
          .program = "train.py",
          .role = "default",
          .command = "x/train.py --lr \"1\"",
          .step = "812_step1"}};
}

inline FailureNews sample_failure() {
  return {
      .rank = 13,
      .local_rank = 5,
      .pid = 4'711,
      .host = "n1",
      .how = "said \"no\" in C:\\ and ended with caf\xC3\xA9",
      .exit_status = 137,
      .signal = 9,
      .can_be_retried = false,
      .needs_pause = true,
      .last_line = TextLine{.text = "NameError: name 'x' is not defined"}};
}

inline VoterSet voters(RoundId round, int size) {
  return {
      .round = round,
      .size = size,
      .is_member = true,
      .is_leader = false,
      .late = {},
      .members = {}};
}

inline LeaderDeath sample_death() {
  return {.of = {.term = 4, .leader = Incarnation{0xA4}}, .in_time = true, .is_replaced = false};
}

inline VoterState sample_standing() {
  return {
      .instance = {.bootstrap_leader = Incarnation{0xF0}, .bootstrapped_ms = 1'700'000'000'000},
      .term = 4,
      .obeyed = {.term = 3, .leader = Incarnation{0xA3}},
      .committed =
          {.round = {.term = 3, .number = 9},
           .size = 5,
           .is_member = true,
           .is_leader = true,
           .late = {{.node = Incarnation{0xB7}, .is_replaced = true}},
           .members = {{.node = Incarnation{0xC8}, .runs = true}}},
      .offered = voters({.term = 4, .number = 10}, 4),
      .undecided = {voters({.term = 3, .number = 10}, 3)},
      .offered_nodes = 4,
      .was_to_run = true,
      .leader_ran = false,
      .group_rank = 2,
      .progress =
          {.attempt = 7,
           .restarts_used = 2,
           .world = 12,
           .previous_world = 16,
           .reason = "node n2 is lost"},
      .verdict = Verdict{.exit_status = 75, .why = "nobody came"}};
}

inline std::vector<Message> sample_messages() {
  const RoundId round{.term = 4, .number = 10};
  return {
      Hello{
          .job = "job 7",
          .node = sample_node(),
          .nodes_min = 2,
          .nodes_max = 4,
          .max_restarts = 3,
          .needs_progress = true,
          .lease = std::chrono::seconds(3),
          .has_fence = true,
          .trusts_replacement = true,
          .voter_state = sample_standing(),
          .awaits = {.bootstrap_leader = Incarnation{0xD9}, .bootstrapped_ms = 7}},
      Heartbeat{
          .number = 18,
          .heard = 17,
          .steps = {{
              {.local_rank = 0,
               .step = 1'200,
               .step_time = std::chrono::milliseconds(80),
               .age = std::chrono::milliseconds(30)},
              {.local_rank = 1,
               .step = 1'199,
               .step_time = std::chrono::milliseconds(80),
               .age = std::chrono::milliseconds(100),
               .busy_with = "evaluating"},
          }}},
      Confirm{.heard = 17},
      Acknowledge{.round = round},
      WorkerNews{
          .round = round,
          .state = WorkersState::kFailed,
          .failure = sample_failure(),
          .pids = {101, 0, 103},
          .has_saved = false,
          .unfit = "its check exited with status 1"},
      FailureText{
          .round = round, .rank = 13, .lines = {{.text = "Traceback:"}, {.text = "  \"x\""}}},
      Leaving{.signal = 15, .whole_job = true},
      PreVote{.dead = sample_death(), .voter_state = sample_standing()},
      Vote{.term = 5, .dead = sample_death(), .voter_state = sample_standing()},
      VerdictHeard{},
      Welcome{
          .instance = sample_standing().instance,
          .term = 4,
          .leader = sample_node(),
          .lease = std::chrono::seconds(3),
          .margin = std::chrono::milliseconds(500),
          .successors = {{.node = Incarnation{1}, .at = {.host = "n2", .port = 1}}}},
      HeartbeatReply{
          .number = 17,
          .grant = std::chrono::nanoseconds(2'999'999'999),
          .round = round,
          .voter_count = 5,
          .next = std::chrono::milliseconds(600)},
      Redirect{
          .job = "job 7",
          .program = "train.py",
          .role = "default",
          .instance = sample_standing().instance,
          .has_begun = true,
          .leadership = {.term = 5, .leader = Incarnation{0xA5}},
          .leader = {.host = "10.0.0.7", .port = 4'000}},
      Survivor{
          .job = "job 7",
          .program = "train.py",
          .role = "default",
          .instance = sample_standing().instance,
          .at = {.host = "10.0.0.7", .port = 4'000}},
      Wait{
          .node = Incarnation{7},
          .at = {.host = "10.0.0.7", .port = 4'000},
          .elsewhere = true,
          .loss = {.why = "n1 is silent", .ends = "it is heard again"}},
      VoteRequest{.term = 6},
      OfferRound{
          .round = round,
          .committed = voters({.term = 3, .number = 9}, 5),
          .place = Place{.group_rank = 1, .group_size = 2, .first_rank = 8, .world_size = 16},
          .nodes = 2,
          .leader_runs = false,
          .voter_count = 3,
          .master = {.host = "10.0.0.1", .port = 29'500},
          .successors =
              {{.node = Incarnation{1}, .at = {.host = "10.0.0.2", .port = 1}},
               {.node = Incarnation{2}, .at = {.host = "::1", .port = 65'535}}},
          .hosts = "n1,n2",
          .progress = sample_standing().progress},
      StartRound{.round = round},
      StopRound{
          .round = round,
          .why = "rank 13 failed",
          .culprit = sample_failure(),
          .restarts = true,
          .restarts_used = 3,
          .restarts_max = 5,
          .crashes = 3,
          .repeats = true,
          .pause = std::chrono::seconds(2)},
      VerdictNews{.verdict = {.exit_status = 1, .why = "rank 13 failed"}, .is_final = true},
      Refuse{
          .job = "a",
          .exit_status = 2,
          .why = "--node-rank 1 is taken by n3",
          .instance = Instance{.bootstrap_leader = Incarnation{0xC8}, .bootstrapped_ms = 1}}};
}

inline JobStatus sample_status() {
  JobStatus status;
  status.job = "job 7";
  status.lease = std::chrono::milliseconds(1500);
  status.exit_status = 1;
  JobStatus::Node node;
  node.host = "n1";
  node.group_rank = 0;
  node.heartbeat_age = std::chrono::milliseconds(250);
  node.workers = {{.rank = 0, .local_rank = 0, .pid = 812}};
  status.nodes = {node, JobStatus::Node()};
  return status;
}

}  // namespace ddprun::testing
