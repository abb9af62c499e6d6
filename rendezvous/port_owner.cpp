#include "rendezvous/port_owner.hpp"

#include "base/file.hpp"
#include "base/parse.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/core/status.hpp"
#include "rendezvous/http_get.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <arpa/inet.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTableBytesMax = std::size_t{64} * 1024 * 1024;
constexpr std::size_t kNameBytesMax = 4096;

/// A socket, by a line of /proc/net/tcp.
struct Socket {
  Address address;  // its own
  bool listens = false;
  std::string user;
  std::string inode;
};

std::optional<std::uint32_t> parse_hex(std::string_view text) {
  std::uint32_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "0100007F": the words of an address as this machine's memory has them.
std::optional<Address> parse_address(std::string_view text) {
  constexpr std::size_t kDigits = 8;  // of a group
  std::array<std::uint32_t, 4> groups{};
  const bool is_ipv4 = text.size() == kDigits;
  if (!is_ipv4 && text.size() != kDigits * groups.size()) return std::nullopt;
  for (std::size_t i = 0; i * kDigits < text.size(); ++i) {
    const auto group = parse_hex(text.substr(i * kDigits, kDigits));
    if (!group) return std::nullopt;
    groups[i] = *group;
  }
  namespace ip = boost::asio::ip;
  if (is_ipv4) return Address(ip::address_v4(ntohl(groups[0])), 0);
  ip::address_v6::bytes_type bytes{};
  std::memcpy(bytes.data(), groups.data(), bytes.size());
  return Address(ip::address_v6(bytes), 0);
}

/// "  0: 0100007F:2742 00000000:0000 0A … uid timeout inode …", if it is of `port`.
std::optional<Socket> parse_socket(std::string_view line, std::uint16_t port) {
  constexpr std::size_t kLocal = 1;
  constexpr std::size_t kState = 3;
  constexpr std::size_t kUser = 7;
  constexpr std::size_t kInode = 9;
  constexpr std::string_view kNobodys = "0";  // TIME_WAIT, which does not block the port
  std::vector<std::string_view> columns = split(line, ' ');
  std::erase(columns, "");
  if (columns.size() <= kInode || columns[kInode] == kNobodys) return std::nullopt;
  const std::size_t colon = columns[kLocal].find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  if (parse_hex(columns[kLocal].substr(colon + 1)) != port) return std::nullopt;
  const auto address = parse_address(columns[kLocal].substr(0, colon));
  if (!address) return std::nullopt;
  return Socket{
      .address = *address,
      .listens = columns[kState] == "0A",
      .user = std::string(columns[kUser]),
      .inode = std::string(columns[kInode])};
}

/// Those that listen, if any; else the others.
std::vector<Socket> sockets_at(std::uint16_t port) {
  std::vector<Socket> listening;
  std::vector<Socket> others;
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto text = read_file(table, kTableBytesMax);
    if (!text) continue;
    for (const std::string_view line : split(*text, '\n')) {
      auto socket = parse_socket(line, port);
      if (socket) (socket->listens ? listening : others).push_back(*std::move(socket));
    }
  }
  return listening.empty() ? others : listening;
}

/// Calls `is_it` with each entry of `directory`, until it says yes or `deadline` has come. A
/// process may end while its directory is read.
template <class Function>
bool find_entry(const fs::path& directory, TimePoint deadline, Function is_it) {
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (Clock::now() >= deadline) return false;
    if (is_it(entry->path())) return true;
  }
  return false;
}

/// Whether the process at `process` has the descriptor whose link reads `socket`.
bool has_open(const fs::path& process, const std::string& socket, TimePoint deadline) {
  return find_entry(process / "fd", deadline, [&socket](const fs::path& descriptor) {
    std::error_code error;
    return fs::read_symlink(descriptor, error) == socket;
  });
}

std::string name_of(const fs::path& process) {
  const auto name = read_file(process / "comm", kNameBytesMax);
  return name ? std::string(trim(*name)) : "";
}

void find_process(const std::string& inode, PortOwner& owner, TimePoint deadline) {
  const std::string socket = fmt::format("socket:[{}]", inode);
  find_entry("/proc", deadline, [&](const fs::path& process) {
    const auto pid = parse_int<int>(process.filename().native());
    if (!pid || !has_open(process, socket, deadline)) return false;
    owner.program = name_of(process);
    owner.pid = *pid;
    return true;
  });
}

/// The endpoints at which a listener on `address` can be reached.
std::vector<Endpoint> ways_to(const Address& address, std::uint16_t port) {
  const std::string host = host_of(address);
  if (host == "0.0.0.0") return {{.host = "127.0.0.1", .port = port}};
  if (host != "::") return {{.host = host, .port = port}};
  return {{.host = "::1", .port = port}, {.host = "127.0.0.1", .port = port}};
}

/// Whether others may join the ddprun that replied. A job of one node replies as well, and takes
/// none.
bool is_of_job(const HttpResponse& response, int nodes_max) {
  constexpr int kOk = 200;
  constexpr int kNotFound = 404;  // of a store alone
  if (response.server != "ddprun" || response.status == kNotFound) return false;
  if (response.status != kOk) return true;  // it does not lead
  if (const auto status = parse_status(response.body)) {
    return status->nodes_max > 1 || nodes_max == 1;
  }
  const auto status = parse_public_status(response.body);
  return status && (!status->is_one_node || nodes_max == 1);
}

}  // namespace

std::string PortOwner::to_string() const {
  if (pid != 0) return fmt::format("{} (pid {})", program.empty() ? "a process" : program, pid);
  return fmt::format("another program of the user with id {} (see ss -tlnp)", user);
}

std::optional<PortOwner> owner_of(std::uint16_t port, Duration patience) {
  const TimePoint deadline = Clock::now() + patience;
  const std::vector<Socket> sockets = sockets_at(port);
  if (sockets.empty()) return std::nullopt;
  PortOwner owner;
  owner.user = sockets.front().user;
  for (const Socket& socket : sockets) {
    if (owner.pid == 0) find_process(socket.inode, owner, deadline);
    owner.inodes.push_back(socket.inode);
    if (!socket.listens) continue;
    const auto ways = ways_to(socket.address, port);
    owner.listens.insert(owner.listens.end(), ways.begin(), ways.end());
  }
  return owner;
}

bool may_host_job(const PortOwner& owner, int nodes_max, IfHidden hidden, TimePoint deadline) {
  bool is_silent = false;
  for (const Endpoint& endpoint : owner.listens) {
    const auto response = http_get(endpoint, "/status", kStatusBytesMax, deadline);
    if (response && is_of_job(*response, nodes_max)) return true;
    is_silent = is_silent || (!response && response.error().is(Errc::kTimedOut));
  }
  // A ddprun that has just started, or is stopped, does not answer. The processes of another
  // container are not visible here.
  const bool may_be_ddprun =
      owner.pid == 0 ? hidden == IfHidden::kMayBe : owner.program == name_of("/proc/self");
  return is_silent && may_be_ddprun;
}

}  // namespace ddprun
