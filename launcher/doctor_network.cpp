#include "launcher/doctor_network.hpp"

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/parse.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/connect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTableBytesMax = std::size_t{64} * 1024 * 1024;

std::string numeric(const sockaddr* raw) {
  Address address;
  if (raw == nullptr) return {};
  if (raw->sa_family == AF_INET) address.size = sizeof(sockaddr_in);
  if (raw->sa_family == AF_INET6) address.size = sizeof(sockaddr_in6);
  if (address.size == 0) return {};
  std::copy_n(
      reinterpret_cast<const char*>(raw), address.size, reinterpret_cast<char*>(&address.storage));
  const std::string host = address.host();
  return host.starts_with("fe80:") ? "" : host;
}

/// A socket that listens, by a line of /proc/net/tcp.
struct Listening {
  std::string user;
  std::string inode;
};

std::optional<std::uint16_t> parse_hex(std::string_view text) {
  std::uint16_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "  0: 0100007F:2742 00000000:0000 0A … uid timeout inode …"
std::optional<Listening> parse_listening(std::string_view line, std::uint16_t port) {
  constexpr std::size_t kLocal = 1;
  constexpr std::size_t kState = 3;
  constexpr std::size_t kUser = 7;
  constexpr std::size_t kInode = 9;
  std::vector<std::string_view> words = split(line, ' ');
  std::erase(words, "");
  if (words.size() <= kInode || words[kState] != "0A") return std::nullopt;
  const std::size_t colon = words[kLocal].find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  if (parse_hex(words[kLocal].substr(colon + 1)) != port) return std::nullopt;
  return Listening{.user = std::string(words[kUser]), .inode = std::string(words[kInode])};
}

std::optional<Listening> find_listening(std::uint16_t port) {
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto text = read_file(table, kTableBytesMax);
    if (!text) continue;
    for (const std::string_view line : split(*text, '\n')) {
      const auto found = parse_listening(line, port);
      if (found) return found;
    }
  }
  return std::nullopt;
}

/// Whether the process at `process` has the descriptor whose link reads `socket`.
bool has_open(const fs::path& process, const std::string& socket) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(process / "fd", error)) {
    if (fs::read_symlink(entry.path(), error) == socket) return true;
  }
  return false;
}

}  // namespace

Result<std::vector<Interface>> look_at_interfaces() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return make_errno_error(errno, "cannot list the interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(
      raw, [](ifaddrs* all) { ::freeifaddrs(all); });
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    auto known = std::ranges::find(interfaces, entry->ifa_name, &Interface::name);
    if (known == interfaces.end()) {
      known = interfaces.insert(known, {.name = entry->ifa_name, .addresses = {}});
    }
    known->is_up = (entry->ifa_flags & IFF_UP) != 0;
    known->has_carrier = (entry->ifa_flags & IFF_RUNNING) != 0;
    known->is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    const std::string address = numeric(entry->ifa_addr);
    if (!address.empty()) known->addresses.push_back(address);
  }
  return interfaces;
}

std::string source_address(const std::string& host) {
  constexpr std::uint16_t kPort = 9;  // any: connecting a UDP socket sends nothing
  const auto addresses = look_up({.host = host, .port = kPort});
  if (!addresses) return {};
  for (const Address& address : *addresses) {
    const Descriptor socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket || ::connect(socket.get(), address.get(), address.size) != 0) continue;
    const auto own = own_end(socket.get());
    if (own) return own->host();
  }
  return {};
}

Result<std::vector<std::string>> addresses_of(const std::string& host) {
  const auto addresses = look_up({.host = host, .port = 0});
  if (!addresses) return addresses.error();
  std::vector<std::string> texts;
  for (const Address& address : *addresses) {
    const std::string text = address.host();
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
  }
  return texts;
}

std::string owner_of(std::uint16_t port) {
  const auto listening = find_listening(port);
  if (!listening) return {};
  const std::string socket = fmt::format("socket:[{}]", listening->inode);
  std::error_code error;
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    const std::string pid = process.path().filename();
    if (!parse_int<int>(pid) || !has_open(process.path(), socket)) continue;
    constexpr std::size_t kNameBytesMax = 4096;
    const auto name = read_file(process.path() / "comm", kNameBytesMax);
    return fmt::format("{} (pid {})", name ? trim(*name) : "a process", pid);
  }
  return fmt::format("a process of the user with id {}", listening->user);
}

Result<void> try_to_reach(const Endpoint& endpoint, TimePoint deadline) {
  const auto socket = connect_to(endpoint, deadline);
  if (!socket) return socket.error();
  return {};
}

}  // namespace ddprun
