#include "rendezvous/core/status.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

JobStatus::Node node_of(std::string host, std::string address) {
  JobStatus::Node node;
  node.host = std::move(host);
  node.address = std::move(address);
  return node;
}

JobStatus ended_job() {
  using Node = JobStatus::Node;
  using Worker = JobStatus::Worker;
  JobStatus status;
  status.job = "run\n7";
  status.version = "1.2.3";
  status.state = JobStatus::State::kEnded;
  status.term = 2;
  status.round = 5;
  status.attempt = 4;
  status.restarts_used = 3;
  status.restarts_max = 9;
  status.nodes_min = 1;
  status.nodes_max = 4;
  status.lease = 1500ms;
  status.reason = "rank 1 failed";
  status.exit_status = 137;
  Node leader = node_of("n0", "[fd00::1]:29400");
  leader.incarnation = 0xFFFF'0000'FFFF'0001;
  leader.state = Node::State::kFailed;
  leader.is_leader = true;
  leader.group_rank = 0;
  leader.workers = {
      {.rank = 0, .local_rank = 0, .pid = 812, .state = Worker::State::kFailed},
      {.rank = 1,
       .local_rank = 1,
       .pid = 813,
       .state = Worker::State::kStopped,
       .step = 1'200,
       .step_time = 250ms,
       .step_age = 1500ms,
       .busy_with = "saving"}};
  Node spare = node_of("n1", "10.0.0.2:1");
  spare.state = Node::State::kSpare;
  spare.heartbeat_age = 250ms;
  spare.unfit = "its check failed";
  status.nodes = {leader, spare};
  return status;
}

std::string complaint_about(const std::string& json) {
  const auto status = parse_status(json);
  return status ? "accepted" : status.error().detail;
}

/// The error for a status in which the first `part` was replaced.
std::string complaint_about_exchange(const std::string& part, const std::string& other) {
  std::string json = to_json(ended_job());
  const std::size_t at = json.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return complaint_about(json.replace(at, part.size(), other));
}

TEST(StatusJson, IsReadAsItWasWritten) {
  for (const JobStatus& status : {JobStatus(), ended_job()}) {
    const auto read = parse_status(to_json(status));
    ASSERT_TRUE(read) << read.error().detail;
    EXPECT_EQ(*read, status);
  }
}

TEST(StatusJson, HasTheFieldsOfTheManual) {
  JobStatus status;
  status.job = "a";
  status.version = "b";
  status.nodes.push_back(node_of("n", "h:1"));
  status.nodes[0].incarnation = 15;
  status.nodes[0].workers.push_back({});
  EXPECT_EQ(
      to_json(status),
      R"({"job":"a","version":"b","state":"gathering","term":0,"round":0,"attempt":0,)"
      R"("restarts_used":0,"restarts_max":0,"nodes_min":1,"nodes_max":1,"lease_s":0.0,"reason":"",)"
      R"("exit_status":null,"nodes":[{"host":"n","address":"h:1","incarnation":"000000000000000f",)"
      R"("state":"waiting","is_leader":false,"group_rank":null,"heartbeat_age_s":null,)"
      R"("unfit":"",)"
      R"("workers":[{"rank":0,"local_rank":0,"pid":0,"state":"running"}]}]})"
      "\n");
}

TEST(StatusJson, PassesOverFieldsOfALaterVersion) {
  EXPECT_EQ(complaint_about_exchange("\"job\":", "\"news\":[{}],\"job\":"), "accepted");
}

TEST(StatusJson, ReplacesBytesThatAreNoText) {
  JobStatus status;
  status.job = "\xff";
  const auto read = parse_status(to_json(status));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->job, "\xEF\xBF\xBD");
}

TEST(StatusJson, NamesTheFieldThatIsWrong) {
  const std::vector<std::pair<std::pair<std::string, std::string>, std::string>> wrong = {
      {{"\"round\":5", "\"rounds\":5"}, "round is missing"},
      {{"\"round\":5", "\"round\":-5"}, "round is -5; expected 0 to 9223372036854775807"},
      {{"\"round\":5", "\"round\":5,\"round\":5"}, "round appears twice"},
      {{"\"attempt\":4", "\"attempt\":99999999999"}, "attempt is 99999999999; expected 0 to 21474"},
      {{"\"attempt\":4", "\"attempt\":18446744073709551615"}, "attempt is 18446744073709551615"},
      {{"\"lease_s\":1.5", "\"lease_s\":1e30"}, "lease_s is not a number from 0"},
      {{"\"lease_s\":1.5", "\"lease_s\":null"}, "lease_s is not a number from 0"},
      {{"\"state\":\"ended\"", "\"state\":\"bored\""},
       "state is \"bored\"; expected one of gather"},
      {{"\"pid\":813", "\"pid\":true"}, "nodes[0].workers[1].pid is not an integer"},
      {{"\"host\":\"n1\"", "\"host\":1"}, "nodes[1].host is not text"},
      {{"\"ffff0000ffff0001\"", "\"xyz\""}, "nodes[0].incarnation is not 16 lowercase hex digits"},
      {{"\"is_leader\":true", "\"is_leader\":1"}, "nodes[0].is_leader is not true or false"},
      {{"\"workers\":[]", "\"workers\":{}"}, "nodes[1].workers is not a list"},
      {{"\"workers\":[]", "\"workers\":[7]"}, "nodes[1].workers[0] is not an object"},
  };
  for (const auto& [exchange, why] : wrong) {
    EXPECT_THAT(complaint_about_exchange(exchange.first, exchange.second), HasSubstr(why));
  }
}

TEST(StatusJson, RefusesWhatIsNoJsonOrNestedTooDeep) {
  EXPECT_EQ(complaint_about(""), "it is not valid JSON");
  EXPECT_EQ(complaint_about("{\"job\":"), "it is not valid JSON");
  EXPECT_EQ(
      complaint_about("{\"news\":" + std::string(1'000'000, '[')), "it is nested deeper than 16");
  EXPECT_THAT(complaint_about("[]"), HasSubstr("it is not an object"));
  EXPECT_EQ(
      complaint_about(std::string(kStatusBytesMax + 1, ' ')), "it has more than 33554432 bytes");
}

}  // namespace
}  // namespace ddprun
