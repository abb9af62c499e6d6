// The rendezvous plan, as far as it does not depend on the machine.

#include "launcher/flags/core/options.hpp"
#include "tests/launcher/flags/command_lines.hpp"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

RendezvousPlan plan_of(const Arguments& arguments) {
  return options_of(arguments).plan.rendezvous;
}

TEST(RendezvousPlan, OfOneNodeIsWithNobody) {
  const auto options = options_of({"train.py"});
  const RendezvousPlan& alone = options.plan.rendezvous;
  EXPECT_FALSE(alone.has_others());
  EXPECT_EQ(alone.nodes, NodeRange(1, 1));
  EXPECT_EQ(alone.bootstraps, Bootstraps::kYes);
  EXPECT_EQ(alone.lease, 3s);
  EXPECT_EQ(alone.join_timeout, 600s);
  EXPECT_EQ(alone.last_call, 30s);
  EXPECT_TRUE(alone.trusts_reset);
  EXPECT_FALSE(alone.trusts_replacement);
  EXPECT_EQ(alone.fence_directory, "");
  EXPECT_EQ(options.plan.run_id, "");  // a random one follows
}

TEST(RendezvousPlan, OfAStaticJobIsAtTheMasterAddress) {
  const auto first = options_of({"--nnodes=2", "--master-addr=node0", "--node-rank=0", "x"});
  EXPECT_EQ(first.plan.rendezvous.endpoint, (Endpoint{"node0", 29500}));
  EXPECT_EQ(first.plan.rendezvous.nodes, NodeRange(2, 2));
  EXPECT_EQ(
      first.plan.rendezvous.bootstraps, Bootstraps::kIfItCanBind);  // another node may claim it too
  EXPECT_EQ(first.plan.rendezvous.node_rank, 0);
  EXPECT_EQ(first.plan.run_id, "none");      // both must agree on it
  EXPECT_EQ(first.plan.master_address, "");  // the address by which the others reach it
  EXPECT_THAT(first.own_hosts, IsEmpty());   // a router may translate it

  const auto second =
      plan_of({"--nnodes=2", "--master-addr=node0", "--master-port=1234", "--node-rank=1", "x"});
  EXPECT_EQ(second.endpoint, (Endpoint{"node0", 1234}));
  EXPECT_EQ(second.bootstraps, Bootstraps::kNo);
  EXPECT_EQ(second.node_rank, 1);
}

TEST(RendezvousPlan, OfAStaticJobTakesTheEndpointBeforeTheMasterAddress) {
  EXPECT_EQ(
      plan_of({"--nnodes=2", "--rdzv-endpoint=[fd00::1]:77", "--master-addr=other", "x"}).endpoint,
      (Endpoint{"fd00::1", 77}));
}

TEST(RendezvousPlan, ProvesThatTheNodeWithoutARankIsRankZero) {
  const auto options = options_of({"--nnodes=2", "--master-addr=node0", "x"});
  EXPECT_EQ(
      options.plan.rendezvous.bootstraps,
      Bootstraps::kIfItCanBind);  // another may have forgotten it
  ASSERT_THAT(options.own_hosts, SizeIs(1));
  EXPECT_EQ(options.own_hosts[0].host.text, "node0");
  EXPECT_THAT(options.own_hosts[0].remedy, HasSubstr("give --node-rank"));
  EXPECT_TRUE(options.own_hosts[0].may_be_unknown);
}

TEST(RendezvousPlan, OfAnElasticJobIsAtTheEndpointOfTheNodeThatCanBindIt) {
  const auto options = options_of(
      {"--nnodes=2:4", "--rdzv-backend=c10d", "--rdzv-endpoint=node0", "--rdzv-id=7", "x"});
  EXPECT_EQ(options.plan.rendezvous.endpoint, (Endpoint{"node0", 29400}));
  EXPECT_EQ(options.plan.rendezvous.nodes, NodeRange(2, 4));
  EXPECT_EQ(options.plan.rendezvous.bootstraps, Bootstraps::kIfItCanBind);
  EXPECT_EQ(options.plan.rendezvous.node_rank, std::nullopt);
  EXPECT_EQ(options.plan.run_id, "7");
  EXPECT_THAT(options.own_hosts, IsEmpty());
}

TEST(RendezvousPlan, OfAnElasticJobTakesTheMasterAddressWithoutAnEndpoint) {
  EXPECT_EQ(
      plan_of({"--nnodes=2", "--rdzv-backend=c10d", "--master-addr=node0", "x"}).endpoint,
      (Endpoint{"node0", 29400}));
}

TEST(RendezvousPlan, KeepsTheRankThatAnElasticNodeWishesFor) {
  EXPECT_EQ(
      plan_of({"--nnodes=1:4", "--rdzv-backend=c10d", "--rdzv-endpoint=a", "--node-rank=3", "x"})
          .node_rank,
      3);
}

TEST(RendezvousPlan, LetsIsHostForceOrForbidTheBootstrapLeader) {
  const Arguments elastic = {
      "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=a", "--rdzv-conf"};
  const auto bootstraps = [&elastic](const char* conf) {
    Arguments arguments = elastic;
    arguments.insert(arguments.end(), {conf, "x"});
    return plan_of(arguments).bootstraps;
  };
  EXPECT_EQ(bootstraps("is_host=yes"), Bootstraps::kYes);
  EXPECT_EQ(bootstraps("is_host=0"), Bootstraps::kNo);
}

TEST(RendezvousPlan, HonoursTorchrunsTimeouts) {
  const auto conf = [](const char* text) { return plan_of({"--rdzv-conf", text, "train.py"}); };
  EXPECT_EQ(conf("timeout=1800").join_timeout, 1800s);
  EXPECT_EQ(conf("join_timeout=5,timeout=1800").join_timeout, 5s);
  EXPECT_EQ(conf("last_call_timeout=0").last_call, 0s);
  EXPECT_EQ(conf("keep_alive_interval=1").lease, 3s);
  EXPECT_EQ(conf("keep_alive_interval=0.5,keep_alive_max_attempt=2").lease, 1s);
  EXPECT_EQ(plan_of({"--rdzv-conf", "keep_alive_interval=100", "--lease", "1", "x"}).lease, 1s);
}

TEST(RendezvousPlan, ReadsTheFlagsOfItsOwn) {
  const auto options = options_of(
      {"--listen-port=77",
       "--trust-reset=off",
       "--trust-replacement=on",
       "--fence-dir=/shared/fence",
       "--lease=0.5",
       "--secret-file=s",
       "--local-addr=iface:eth0",
       "x"});
  EXPECT_EQ(options.plan.rendezvous.listen_port, 77);
  EXPECT_FALSE(options.plan.rendezvous.trusts_reset);
  EXPECT_TRUE(options.plan.rendezvous.trusts_replacement);
  EXPECT_EQ(options.plan.rendezvous.fence_directory, "/shared/fence");
  EXPECT_EQ(options.fence_directory->source, "--fence-dir");
  EXPECT_EQ(options.plan.rendezvous.lease, 500ms);
  EXPECT_EQ(options.secret_file->text, "s");
  EXPECT_TRUE(options.local_address->is_interface);
  EXPECT_EQ(options.local_address->named.text, "eth0");
}

TEST(RendezvousPlan, EveryWayToWriteAllAddressesBindsToAll) {
  for (const char* const all : {"all", "0.0.0.0", "::", "[::]"}) {
    const auto options = options_of({std::string("--bind=") + all, "x"});
    EXPECT_EQ(options.plan.rendezvous.bind.to, BindPlan::To::kAll) << all;
    EXPECT_FALSE(options.bind) << all;
  }
}

TEST(RendezvousPlan, OfAStandaloneJobIsWithNobodyWhateverMayCome) {
  EXPECT_FALSE(plan_of({"--standalone", "--nnodes=1:4", "--rdzv-endpoint=a:1", "x"}).has_others());
}

struct BadCombination {
  Arguments arguments;
  std::string why;
  std::string remedy;
};

TEST(RendezvousPlan, RefusesWhatContradictsItselfWithValueReasonAndRemedy) {
  const std::string c10d = "--rdzv-backend=c10d";
  const std::vector<BadCombination> bad = {
      {{"--nnodes", "2"}, "--nnodes '2': no rendezvous endpoint", "give --master-addr"},
      {{"--nnodes", "2", c10d}, "--nnodes '2': no rendezvous endpoint", "give --rdzv-endpoint"},
      {{"--nnodes", "2:4", "--master-addr", "a"}, "fixed number", "give 4, or --rdzv-backend c10d"},
      {{"--nnodes", "2", "--master-addr", "a", "--node-rank", "2"},
       "--node-rank '2': the ranks of 2 nodes are 0 to 1",
       "count from 0"},
      {{"--nnodes", "1:2", c10d, "--rdzv-endpoint", "a", "--node-rank", "2"}, "0 to 1", "raise"},
      {{"--node-rank", "1"}, "--node-rank '1': the only node has rank 0", "give --nnodes"},
      {{"--nnodes", "2", c10d, "--rdzv-endpoint", "a:0"}, "--rdzv-endpoint 'a:0'", "give a number"},
      {{"--nnodes", "2", "--master-addr", "a", "--master-port", "0"},
       "--master-port '0'",
       "number"},
      {{"--nnodes", "2", "--rdzv-endpoint", "a"}, "needs a port", "or give --rdzv-backend c10d"},
      {{"--nnodes", "2", "--master-addr", "0.0.0.0"}, "--master-addr '0.0.0.0'", "give one"},
      {{"--nnodes", "2", c10d, "--rdzv-endpoint", "[::]"}, "--rdzv-endpoint '[::]'", "give one"},
      {{"--nnodes", "2", "--standalone"}, "--nnodes '2'", "leave one of them out"},
      {{"--rdzv-conf", "is_host=no"}, "the only node hosts the store", "leave it out"},
      {{"--nnodes=2", "--master-addr=a", "--node-rank=1", "--rdzv-conf=is_host=1"},
       "'is_host=1': is_host: with the static backend only node rank 0 hosts",
       "leave it out"},
      {{"--nnodes=2", "--master-addr=a", "--rdzv-conf=is_host=0"}, "node rank 0 hosts", "leave"},
      {{"--rdzv-conf", "keep_alive_interval=3600"}, "10800 s, but must be", "give --lease"},
      {{"--rdzv-conf", "keep_alive_interval=1e8,keep_alive_max_attempt=2147483647"},
       "the lease is",
       "leave them out"},
  };
  for (const auto& [arguments, why, remedy] : bad) {
    EXPECT_THAT(complaint(arguments), AllOf(HasSubstr(why), HasSubstr(remedy)));
  }
}

}  // namespace
}  // namespace ddprun
