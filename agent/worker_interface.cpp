#include "agent/worker_interface.hpp"

#include "base/log.hpp"
#include "rendezvous/errand.hpp"
#include "rendezvous/own_address.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

// The addresses for the next round are looked up after the workers of this one have started, and on
// threads. Listing the interfaces takes a lock of the kernel for all network namespaces, which is
// held for a second while many containers start and stop.
constexpr auto kPauseBeforeLookUp = std::chrono::seconds(1);

// For the kernel, on the thread that answers heartbeats.
constexpr auto kQueryPatience = std::chrono::milliseconds(50);

constexpr std::string_view kWhat = "cannot list the interfaces";
using InterfaceQuery = Errand<std::vector<Interface>>;

Result<std::vector<std::string>> numeric(const Result<std::vector<Address>>& addresses) {
  if (!addresses) return addresses.error();
  std::vector<std::string> texts;
  for (const Address& address : *addresses) {
    texts.push_back(host_of(address));
  }
  return texts;
}

}  // namespace

WorkerInterface::WorkerInterface(asio::io_context& context, std::string host)
    : host_{.name = std::move(host), .addresses = make_error(Errc::kTimedOut, "")},
      limit_(context, kNever),
      round_(context, kNever),
      answered_(context, kNever) {
  host_.addresses = make_error(
      Errc::kTimedOut,
      fmt::format("host name '{}' is not resolved yet: the name service is slow", host_.name));
}

asio::awaitable<void> WorkerInterface::serve() {
  const Endpoint own{.host = host_.name, .port = 0};
  for (;;) {
    const auto addresses = co_await names_.look_up(own, limit_);
    host_.addresses = numeric(addresses);
    co_await read_interfaces();
    has_answer_ = true;
    answered_.cancel();
    for (;;) {
      const auto [re_armed] = co_await round_.async_wait(kTuple);
      if (!re_armed) break;
    }
    round_.expires_at(kNever);
  }
}

asio::awaitable<void> WorkerInterface::first_answer(Duration patience) {
  if (has_answer_) co_return;
  answered_.expires_after(patience);
  co_await answered_.async_wait(kTuple);
}

asio::awaitable<void> WorkerInterface::read_interfaces() {
  const auto query = InterfaceQuery::begin(kWhat, own_interfaces);
  if (!query) co_return take(query.error());
  const auto found = co_await (*query)->await(limit_);
  if (found) take(*found);  // else it was cancelled
}

/// Refreshes the interfaces if their addresses have changed. The kernel may block the caller.
void WorkerInterface::reread_interfaces() {
  const auto query = InterfaceQuery::begin(kWhat, own_interfaces);
  if (!query) return take(query.error());
  if (const auto found = (*query)->answer_within(kQueryPatience)) return take(*found);
  take(make_error(Errc::kTimedOut, "the kernel does not list the interfaces"));
}

void WorkerInterface::take(const Result<std::vector<Interface>>& found) {
  if (found) {
    interfaces_ = *found;
  } else {
    spdlog::warn("{}; no interface is set for the workers", found.error().detail);
    interfaces_.clear();
  }
}

std::optional<InterfaceChoice> WorkerInterface::choose(const std::string& own_address) {
  round_.expires_after(kPauseBeforeLookUp);
  if (is_loopback(own_address)) return std::nullopt;
  if (interface_of(own_address, interfaces_) == nullptr) reread_interfaces();
  auto choice = choose_interface(host_, own_address, interfaces_);
  if (choice) {
    spdlog::info(
        "workers use interface {}, which leads to the leader (GLOO_SOCKET_IFNAME): {}",
        choice->name,
        choice->why);
  }
  return choice;
}

}  // namespace ddprun
