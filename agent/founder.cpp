#include "agent/founder.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "rendezvous/dial.hpp"
#include "rendezvous/own_address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr Duration kAskAgainAfter = std::chrono::seconds(1);

}  // namespace

asio::awaitable<Result<bool>> is_at_endpoint(const MeetingPlan& meeting) {
  co_await asio::this_coro::throw_if_cancelled(false);
  DDPRUN_CHECK(meeting.endpoint.has_value());
  const Endpoint endpoint = meeting.endpoint.value_or(Endpoint());
  if (const auto number = numeric_address(endpoint)) co_return own_among({*number}).has_value();
  const auto executor = co_await asio::this_coro::executor;
  NameService names;
  Timer limit(executor, Clock::now() + meeting.join_timeout);
  bool has_told = false;
  for (;;) {
    const auto addresses = co_await names.look_up(endpoint, limit);
    if (addresses) co_return own_among(*addresses).has_value();
    const std::string why = fmt::format("the endpoint's {}", addresses.error().detail);
    if (!std::exchange(has_told, true)) {
      spdlog::warn(
          "{}; asked again for {:.0f} s at most, since this node may be the one to found the job",
          why,
          to_seconds(meeting.join_timeout));
    }
    Timer pause(executor, std::min(Clock::now() + kAskAgainAfter, limit.expiry()));
    co_await pause.async_wait(kTuple);
    const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
    if (asked.cancelled() != asio::cancellation_type::none) {
      co_return make_error(Errc::kCancelled, "asked to stop while a name was looked up");
    }
    if (Clock::now() >= limit.expiry()) {
      co_return make_error(
          Errc::kTimedOut,
          fmt::format(
              "{}, for {:.0f} s; correct --rdzv-endpoint, or give an address",
              why,
              to_seconds(meeting.join_timeout)));
    }
  }
}

}  // namespace ddprun
