#include "agent/advertisement.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

#include <sys/socket.h>
#include <sys/un.h>

namespace ddprun {
namespace {

constexpr std::size_t kAdvertisedMax = 16;

/// FNV-1a of 64 bits, by Fowler, Noll and Vo: the same in every build, unlike std::hash.
std::uint64_t hash_of(std::string_view text) {
  constexpr std::uint64_t kBasis = 0xCBF29CE484222325;
  constexpr std::uint64_t kPrime = 0x100000001B3;
  std::uint64_t hash = kBasis;
  for (const char byte : text)
    hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  return hash;
}

/// Prefix of the name of each socket of the job, without the NUL that makes it abstract. Two jobs
/// may have the same prefix by chance: an agent that is called by another job refuses it.
std::string prefix_of(const AdvertisedJob& job) {
  std::string text;
  for (const std::string& part : {job.id, job.endpoint.to_string(), job.program, job.role}) {
    text += part;
    text += '\0';  // no part contains a NUL
  }
  return fmt::format("ddprun/{:016x}/", hash_of(text));
}

}  // namespace

Result<Descriptor> advertise(const AdvertisedJob& job, const Endpoint& at) {
  const std::string name = prefix_of(job) + at.to_string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() >= sizeof address.sun_path) {
    return make_error(Errc::kIo, fmt::format("'{}' is too long for a socket's name", name));
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), generic, size) != 0) {
    return make_errno_error(errno, fmt::format("cannot bind the abstract socket '{}'", name));
  }
  return socket;
}

std::vector<Endpoint> advertised(const AdvertisedJob& job) {
  const std::string before = "@" + prefix_of(job);
  std::vector<Endpoint> found;
  std::ifstream table("/proc/net/unix");
  for (std::string line; found.size() < kAdvertisedMax && std::getline(table, line);) {
    const auto at = line.find(before);
    if (at == std::string::npos) continue;
    const auto endpoint = Endpoint::parse(std::string_view(line).substr(at + before.size()), 0);
    if (endpoint && endpoint->port != 0) found.push_back(*endpoint);
  }
  return found;
}

}  // namespace ddprun
