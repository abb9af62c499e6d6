// Puts our client through every operation against the store server on 127.0.0.1:PORT, which is
// torch's or ours and has no keys yet:
//
//   store_probe PORT torch22|torch25|torch28|torch210
//
// Ends with 0, or with 1 and the first thing that was not as it should be.

#include "base/parse.hpp"
#include "rendezvous/store_client.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 30s;

/// Ends the program unless `got` is a value, which it returns.
template <class T>
// It moves out of `got`, unless T is void. NOLINTNEXTLINE(performance-unnecessary-value-param)
T need(Result<T> got, std::string_view what) {
  if (!got) {
    fmt::print(stderr, "store_probe: {}: {}\n", what, got.error().detail);
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*got);
}

void expect(bool holds, std::string_view claim) {
  if (holds) return;
  fmt::print(stderr, "store_probe: it does not hold that {}\n", claim);
  std::exit(1);
}

TimePoint soon() {
  return Clock::now() + kPatience;
}

void probe_values(StoreClient& client) {
  const std::array<std::string, 2> both = {"a", "b"};
  const std::array<std::pair<std::string, std::string>, 2> pairs = {{{"a", "1"}, {"b", ""}}};
  need(client.set("k", "v"), "set");
  expect(need(client.get("k", soon()), "get") == "v", "get returns what was set");
  need(client.multi_set(pairs), "multi_set");
  need(client.append("a", "2"), "append");
  const auto values = need(client.multi_get(both, soon()), "multi_get");
  expect(values == std::vector<std::string>{"12", ""}, "multi_get returns both values");
  expect(need(client.add("n", 5), "add") == 5, "add starts at 0");
  expect(need(client.add("n", -7), "add") == -2, "add goes below 0");
  expect(need(client.compare_set("c", "", "x"), "compare_set") == "x", "compare_set creates");
  expect(need(client.compare_set("c", "y", "z"), "compare_set") == "x", "compare_set refuses");
  expect(need(client.compare_set("none", "y", "z"), "compare_set") == "y", "absent says expected");
  expect(need(client.check(both), "check"), "check sees both keys");
  expect(need(client.delete_key("a"), "delete_key"), "delete_key deletes");
  expect(!need(client.delete_key("a"), "delete_key"), "delete_key deletes once");
  expect(!need(client.check(both), "check"), "check misses a deleted key");
  const std::string large(1'000'000, 'x');
  need(client.set("large", large), "set");
  expect(need(client.get("large", soon()), "get") == large, "a megabyte comes back");
}

void probe_waiting(StoreClient& client) {
  const std::array<std::string, 1> never = {"never"};
  const auto waited = client.wait(never, Clock::now() + 1ms);
  expect(!waited && waited.error().is(Errc::kTimedOut), "a wait times out");
  expect(need(client.add("after", 1), "add") == 1, "the client is usable after it");
  need(client.barrier("end", 1, soon()), "barrier");
}

void probe_queues(StoreClient& client) {
  need(client.queue_push("q", "1"), "queue_push");
  need(client.queue_push("q", "2"), "queue_push");
  expect(need(client.queue_len("q"), "queue_len") == 2, "queue_len counts");
  expect(need(client.queue_pop("q"), "queue_pop") == "1", "the first comes first");
  expect(need(client.queue_pop("q"), "queue_pop") == "2", "the second comes second");
  expect(!need(client.queue_pop("q"), "queue_pop"), "then the queue is empty");
}

void probe(std::uint16_t port, StoreDialect dialect) {
  const Endpoint endpoint{.host = "127.0.0.1", .port = port};
  const auto client = need(StoreClient::connect(endpoint, {.dialect = dialect}, soon()), "connect");
  const std::int64_t before = need(client->num_keys(), "num_keys");
  expect(need(client->announce(), "announce") >= 1, "announce counts");
  probe_values(*client);
  probe_waiting(*client);
  if (dialect >= StoreDialect::kTorch28) probe_queues(*client);
  if (dialect >= StoreDialect::kTorch210) {
    expect(!need(client->list_keys(), "list_keys").empty(), "list_keys lists");
  }
  expect(need(client->num_keys(), "num_keys") > before, "num_keys has grown");
}

int run(int argc, char* const* argv) {
  const std::map<std::string_view, StoreDialect> dialects = {
      {"torch22", StoreDialect::kTorch22},
      {"torch25", StoreDialect::kTorch25},
      {"torch28", StoreDialect::kTorch28},
      {"torch210", StoreDialect::kTorch210}};
  const auto port = argc == 3 ? parse_int<std::uint16_t>(argv[1]) : std::nullopt;
  if (!port || !dialects.contains(argv[2])) {
    fmt::print(stderr, "usage: store_probe PORT torch22|torch25|torch28|torch210\n");
    return 2;
  }
  probe(*port, dialects.at(argv[2]));
  return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char* const* argv) {
  return ddprun::run(argc, argv);
}
