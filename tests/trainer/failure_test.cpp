#include "trainer/core/failure.hpp"

#include "base/exit_status.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ClassifyFailure, TakesAPeerThatHasGoneForWorthAnotherTry) {
  const TrainFailure failure = classify_failure(
      "[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer "
      "[127.0.0.1]:40404\nException raised from …");
  EXPECT_EQ(failure.exit_status, kExitTryAgain);
  EXPECT_THAT(failure.message, HasSubstr("lost another rank"));
  EXPECT_THAT(failure.message, Not(HasSubstr("\n")));
}

TEST(ClassifyFailure, TakesRanksThatDoNotFindEachOtherInTimeForWorthAnotherTry) {
  const TrainFailure failure =
      classify_failure("wait timeout after 3000ms, keys: /default_pg/0//cpu//0/1");
  EXPECT_EQ(failure.exit_status, kExitTryAgain);
  EXPECT_THAT(failure.message, HasSubstr("lost another rank"));
}

TEST(KeptWaiting, NamesTheRankThatAllWaitFor) {
  EXPECT_TRUE(is_timeout("Timed out waiting 3000ms for recv operation to complete"));
  EXPECT_FALSE(is_timeout("Connection closed by peer"));
  const TrainFailure failure = kept_waiting_by({1, 3});
  EXPECT_EQ(failure.exit_status, kExitTryAgain);
  EXPECT_THAT(failure.message, HasSubstr("rank 1, 3 kept the others waiting"));
}

TEST(ClassifyFailure, TakesAStoreThatDoesNotAnswerForWorthAnotherTry) {
  const TrainFailure failure = classify_failure(
      "The client socket has timed out after 300000ms while trying to connect to (10.0.0.1, 5).");
  EXPECT_EQ(failure.exit_status, kExitTryAgain);
  EXPECT_THAT(failure.message, HasSubstr("the store at MASTER_ADDR:MASTER_PORT"));
}

TEST(ClassifyFailure, TakesAGpuThatFailsForItsNodesFaultAndNotForADefect) {
  const TrainFailure failure = classify_failure(
      "CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be …");
  EXPECT_EQ(failure.exit_status, kExitTryAgain);
  EXPECT_THAT(failure.message, HasSubstr("the GPU failed (CUDA error: uncorrectable ECC"));
  EXPECT_EQ(classify_failure("CUDA error: out of memory").exit_status, kExitNoMemory);
}

TEST(ClassifyFailure, NamesTheVariableOfAnInterfaceThatIsNotThere) {
  const TrainFailure failure = classify_failure(
      "[enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. "
      "Unable to find address for: nope");
  EXPECT_EQ(failure.exit_status, kExitUsage);
  EXPECT_THAT(
      failure.message, HasSubstr("GLOO_SOCKET_IFNAME: this node has no network interface 'nope'"));
}

TEST(ClassifyFailure, TakesAllElseForADefect) {
  EXPECT_EQ(classify_failure("mat1 and mat2 shapes cannot be multiplied").exit_status, kExitDefect);
}

TEST(ErrorFileJson, HasTheFormThatTorchrunReads) {
  EXPECT_EQ(
      error_file_json("rank \"1\"", 17),
      R"({"message":{"extraInfo":{"py_callstack":"","timestamp":"17"},"message":"rank \"1\""}})");
}

TEST(ErrorFileJson, IsWrittenForBytesThatAreNoText) {
  EXPECT_THAT(error_file_json("\xff", 17), HasSubstr("message"));
}

}  // namespace
}  // namespace ddprun
