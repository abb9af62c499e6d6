#include "rendezvous/port_owner.hpp"

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/parse.hpp"
#include "rendezvous/listener.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <thread>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

std::string own_name() {
  return std::string(trim(*read_file("/proc/self/comm", 4096)));
}

/// A listener of this process, which answers each connection with the same bytes and closes it.
class Program {
 public:
  explicit Program(std::string host, std::string answer = "") : answer_(std::move(answer)) {
    auto listening = listen_on({.host = std::move(host), .port = 0});
    EXPECT_TRUE(listening);
    listening_ = std::move(listening->front());
    if (!answer_.empty()) thread_ = std::thread([this] { serve(); });
  }
  ~Program() {
    ::shutdown(listening_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  PortOwner owner() const { return owner_of(port_of(listening_.get()), kOwnerPatience).value(); }

 private:
  void serve() const {
    for (;;) {
      pollfd called{.fd = listening_.get(), .events = POLLIN, .revents = 0};
      ::poll(&called, 1, -1);
      const Descriptor caller(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!caller) return;
      std::array<char, 1024> request{};
      ::recv(caller.get(), request.data(), request.size(), 0);
      ::send(caller.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
    }
  }

  std::string answer_;
  Descriptor listening_;
  std::thread thread_;
};

bool may_host(const Program& program, int nodes_max = 2, Duration patience = 60s) {
  return may_host_job(program.owner(), nodes_max, IfHidden::kIsNone, Clock::now() + patience);
}

TEST(PortOwner, IsTheProgramThatListens) {
  for (const char* const host : {"", "127.0.0.1", "::1"}) {
    const Program program(host);
    const PortOwner owner = program.owner();
    EXPECT_EQ(own_name(), owner.program) << host;
    EXPECT_EQ(::getpid(), owner.pid);
    EXPECT_EQ(own_name() + " (pid " + std::to_string(::getpid()) + ")", owner.to_string());
    ASSERT_FALSE(owner.listens.empty());
    if (*host != '\0') {
      EXPECT_EQ(host, owner.listens.front().host);
    }
  }
}

TEST(PortOwner, IsNobodyWhereThePortIsFree) {
  std::uint16_t port = 0;
  {
    const auto listening = listen_on({.host = "127.0.0.1", .port = 0});
    port = port_of(listening->front().get());
  }
  EXPECT_FALSE(owner_of(port, kOwnerPatience));
}

TEST(PortOwner, HasOtherSocketsOnceItWasStartedAgain) {
  auto listening = listen_on({.host = "127.0.0.1", .port = 0}).value();
  const std::uint16_t port = port_of(listening.front().get());
  const auto before = owner_of(port, kOwnerPatience).value().inodes;
  EXPECT_EQ(1U, before.size());
  EXPECT_EQ(before, owner_of(port, kOwnerPatience).value().inodes);
  listening.clear();
  const Descriptor other =
      std::move(listen_on({.host = "127.0.0.1", .port = port}).value().front());
  EXPECT_NE(before, owner_of(port, kOwnerPatience).value().inodes);
}

TEST(PortOwner, IsKnownByItsSocketsIfThereIsNoTimeToLookThroughAllProcesses) {
  const auto listening = listen_on({.host = "127.0.0.1", .port = 0}).value();
  const auto owner = owner_of(port_of(listening.front().get()), Duration::zero()).value();
  EXPECT_EQ(0, owner.pid);
  EXPECT_EQ(std::to_string(::getuid()), owner.user);
  EXPECT_EQ(1U, owner.inodes.size());
  EXPECT_EQ(1U, owner.listens.size());
}

TEST(PortOwner, SaysWhoseItIsIfTheProgramIsHidden) {
  const PortOwner hidden{.program = "", .pid = 0, .user = "1000", .listens = {}, .inodes = {}};
  EXPECT_EQ("another program of the user with id 1000 (see ss -tlnp)", hidden.to_string());
}

TEST(MayHostJob, NotAProgramThatSpeaksOtherwise) {
  EXPECT_FALSE(may_host(Program("127.0.0.1", "SSH-2.0-OpenSSH_9.2\r\n")));
  EXPECT_FALSE(may_host(
      Program("127.0.0.1", "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 2\r\n\r\n{}")));
  EXPECT_FALSE(may_host(Program(
      "127.0.0.1", "HTTP/1.1 404 Not Found\r\nServer: ddprun\r\nContent-Length: 0\r\n\r\n")))
      << "a store alone";
}

TEST(MayHostJob, AnAgentThatDoesNotLead) {
  EXPECT_TRUE(may_host(Program(
      "127.0.0.1",
      "HTTP/1.1 503 Service Unavailable\r\nServer: ddprun\r\nContent-Length: 9\r\n\r\nno leader")));
}

TEST(MayHostJob, ASilentProgramIfItMayBeADdprun) {
  const Program program("127.0.0.1");
  PortOwner owner = program.owner();
  const auto may = [&owner](IfHidden hidden = IfHidden::kMayBe) {
    return may_host_job(owner, 2, hidden, Clock::now() + 10ms);
  };
  EXPECT_TRUE(may()) << "it has the name of this program";
  owner.program = "nc";
  EXPECT_FALSE(may());
  owner.pid = 0;
  EXPECT_TRUE(may()) << "nobody knows its name";
  EXPECT_FALSE(may(IfHidden::kIsNone));
}

TEST(MayHostJob, NotAProgramThatDoesNotListen) {
  EXPECT_FALSE(may_host_job(
      {.program = own_name(), .pid = 1, .user = "0", .listens = {}, .inodes = {}},
      2,
      IfHidden::kMayBe,
      Clock::now()));
}

}  // namespace
}  // namespace ddprun
