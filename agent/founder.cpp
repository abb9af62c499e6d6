#include "agent/founder.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "rendezvous/dial.hpp"
#include "rendezvous/own_address.hpp"

#include <algorithm>

namespace ddprun {
namespace {

constexpr Duration kPatience = std::chrono::seconds(1);  // with the name service

}  // namespace

asio::awaitable<bool> is_at_endpoint(const MeetingPlan& meeting) {
  co_await asio::this_coro::throw_if_cancelled(false);
  DDPRUN_CHECK(meeting.endpoint.has_value());
  const Endpoint endpoint = meeting.endpoint.value_or(Endpoint());
  if (const auto number = numeric_address(endpoint)) co_return own_among({*number}).has_value();
  NameService names;
  const Duration patience = std::min(kPatience, meeting.join_timeout);
  Timer limit(co_await asio::this_coro::executor, Clock::now() + patience);
  const auto addresses = co_await names.look_up(endpoint, limit);
  if (addresses) co_return own_among(*addresses).has_value();
  const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
  const bool is_told = asked.cancelled() == asio::cancellation_type::none;
  if (is_told && meeting.founds == Founds::kIfItCanBind) {
    spdlog::warn(
        "the endpoint's {}; asked again for {:.0f} s at most, since this node may be the one to "
        "found the job",
        addresses.error().detail,
        to_seconds(meeting.join_timeout));
  }
  co_return false;
}

}  // namespace ddprun
