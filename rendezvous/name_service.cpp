#include "rendezvous/name_service.hpp"

#include "rendezvous/errand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

namespace ddprun {
namespace {

constexpr Duration kNextQueryAfter = std::chrono::seconds(1);

}  // namespace

struct NameService::Query {
  Endpoint endpoint;
  TimePoint since;
  std::shared_ptr<Errand<std::vector<Address>>> errand;
};

NameService::NameService() = default;
NameService::~NameService() = default;

asio::awaitable<Result<std::vector<Address>>> NameService::look_up(
    Endpoint endpoint, Timer& limit) {
  if (const auto number = numeric_address(endpoint)) co_return std::vector<Address>(1, *number);
  auto started = query_for(endpoint);
  if (!started) co_return started.error();
  const std::shared_ptr<Query> query = std::move(*started);
  auto answer = co_await query->errand->await(limit);
  if (answer) co_return *std::move(answer);
  co_return make_error(Errc::kTimedOut, "the name service does not answer");
}

Result<std::shared_ptr<NameService::Query>> NameService::query_for(const Endpoint& endpoint) {
  // A later question gets a fresh answer.
  std::erase_if(running_, [](const auto& it) { return it->errand->answer().has_value(); });
  const auto is_same = [&](const auto& it) { return it->endpoint == endpoint; };
  const auto newest_first = std::views::reverse(running_);
  const auto newest = std::ranges::find_if(newest_first, is_same);
  if (newest != newest_first.end()) {
    const auto of_this_name = std::ranges::count_if(running_, is_same);
    const bool is_late = Clock::now() >= (*newest)->since + of_this_name * kNextQueryAfter;
    if (!is_late || std::cmp_greater_equal(of_this_name, kOfOneNameMax)) return *newest;
  }
  if (running_.size() >= kQueriesMax) {
    return make_error(Errc::kLimit, fmt::format("{} other names are being looked up", kQueriesMax));
  }
  auto errand = Errand<std::vector<Address>>::begin(
      "cannot look up a name", [endpoint] { return ddprun::look_up(endpoint); });
  if (!errand) return errand.error();
  auto query = std::make_shared<Query>(
      Query{.endpoint = endpoint, .since = Clock::now(), .errand = *std::move(errand)});
  running_.push_back(query);
  return query;
}

}  // namespace ddprun
