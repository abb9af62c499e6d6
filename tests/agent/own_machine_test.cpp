// Recorded trees of machines.

#include "agent/own_machine.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace ddprun {
namespace {

constexpr char kBoot[] = "proc/sys/kernel/random/boot_id";
constexpr char kId[] = "etc/machine-id";

class OwnMachine : public testing::Test {
 public:
  OwnMachine(const OwnMachine&) = delete;
  OwnMachine& operator=(const OwnMachine&) = delete;

 protected:
  OwnMachine() = default;
  ~OwnMachine() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }

  std::filesystem::path root_ = std::filesystem::temp_directory_path() /
                                ("ddprun_own_machine_test_" + std::to_string(::getpid()));
};

TEST_F(OwnMachine, IsNamedByItsBootAndItsId) {
  write(kBoot, "5c1a8a0e-6a3c-4f9e-9d0a-0d4b1c2e3f40\n");
  write(kId, "0123456789abcdef0123456789abcdef\n");
  const Machine machine = own_machine(root_);
  EXPECT_EQ(machine.boot, "5c1a8a0e-6a3c-4f9e-9d0a-0d4b1c2e3f40");
  EXPECT_EQ(machine.id, "0123456789abcdef0123456789abcdef");
}

TEST_F(OwnMachine, IsUnknownWithoutTheFiles) {
  EXPECT_EQ(own_machine(root_), Machine());
}

TEST_F(OwnMachine, IsUnknownBeforeItsFirstStartIsOver) {
  write(kId, "uninitialized\n");
  EXPECT_EQ(own_machine(root_).id, "");
  write(kId, "\n");  // as an image leaves it for the first start
  EXPECT_EQ(own_machine(root_).id, "");
}

TEST_F(OwnMachine, IsUnknownIfItsIdCannotBeSent) {
  write(kId, std::string(65, 'a') + "\n");
  EXPECT_EQ(own_machine(root_).id, "");
  write(kId, std::string(64, 'a') + "\n");
  EXPECT_EQ(own_machine(root_).id, std::string(64, 'a'));
  write(kId, std::string(5000, 'a'));
  EXPECT_EQ(own_machine(root_).id, "");
  write(kId, "one\ntwo\n");
  EXPECT_EQ(own_machine(root_).id, "");
}

TEST_F(OwnMachine, IsKnownHereByItsBoot) {
  if (!std::filesystem::exists(std::filesystem::path("/") / kBoot)) GTEST_SKIP();
  EXPECT_EQ(own_machine().boot.size(), 36U);
  EXPECT_EQ(own_machine(), own_machine());
}

}  // namespace
}  // namespace ddprun
