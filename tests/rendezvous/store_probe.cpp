// Asks the store server on 127.0.0.1:PORT, torch's or ours, whether it has KEY:
//
//   store_probe PORT KEY
//
// Prints "yes" or "no" and ends with 0; or ends with 1 and the reason.

#include "base/parse.hpp"
#include "rendezvous/store_client.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

Result<bool> probe(std::uint16_t port, std::string_view key) {
  const TimePoint deadline = Clock::now() + 30s;
  auto client = StoreClient::connect({.host = "127.0.0.1", .port = port}, deadline);
  if (!client) return client.error();
  return client->has(key, deadline);
}

int run(int argc, char* const* argv) {
  const auto port = argc == 3 ? parse_int<std::uint16_t>(argv[1]) : std::nullopt;
  if (!port) {
    fmt::print(stderr, "usage: store_probe PORT KEY\n");
    return 2;
  }
  const auto found = probe(*port, argv[2]);
  if (!found) {
    fmt::print(stderr, "store_probe: {}\n", found.error().detail);
    return 1;
  }
  fmt::print("{}\n", *found ? "yes" : "no");
  return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char* const* argv) {
  return ddprun::run(argc, argv);
}
