#include "agent/worker_interface.hpp"

#include "base/log.hpp"
#include "rendezvous/interfaces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

Result<std::vector<std::string>> numeric(const Result<std::vector<Address>>& addresses) {
  if (!addresses) return addresses.error();
  std::vector<std::string> texts;
  for (const Address& address : *addresses) {
    texts.push_back(address.host());
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
    has_answer_ = true;
    answered_.cancel();
    co_await round_.async_wait(kTuple);
  }
}

asio::awaitable<void> WorkerInterface::first_answer(Duration patience) {
  if (has_answer_) co_return;
  answered_.expires_after(patience);
  co_await answered_.async_wait(kTuple);
}

std::optional<InterfaceChoice> WorkerInterface::choose(const std::string& own_address) {
  round_.cancel();
  const auto interfaces = own_interfaces();
  if (!interfaces) {
    spdlog::warn("{}; workers are told of no interface", interfaces.error().detail);
    return std::nullopt;
  }
  auto choice = choose_interface(host_, own_address, *interfaces);
  if (choice) {
    spdlog::info(
        "workers use interface {}, which leads to the leader (GLOO_SOCKET_IFNAME): {}",
        choice->name,
        choice->why);
  }
  return choice;
}

}  // namespace ddprun
