#include "rendezvous/store_client.hpp"

#include "rendezvous/connect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstPause = 10ms;
constexpr Duration kPauseMax = 1s;

// What a server may make us allocate for one answer: a value that APPENDs have grown.
constexpr std::uint64_t kValueBytesMax = 64U << 20U;
constexpr std::uint64_t kListedKeysMax = 16'000'000;

std::string stored_name(std::string_view key) {
  return fmt::format("/{}", key);
}

std::vector<std::string> stored_names(std::span<const std::string> keys) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const std::string& key : keys) {
    names.push_back(stored_name(key));
  }
  return names;
}

std::string joined(std::span<const std::string> keys) {
  std::string text;
  for (const std::string& key : keys) {
    if (!text.empty()) text += ", ";
    text += key;
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<StoreClient>> StoreClient::connect(
    const Endpoint& endpoint, const Options& options, TimePoint deadline) {
  Options said = options;
  Duration pause = kFirstPause;
  bool dropped_ping = false;
  for (;;) {
    auto client = try_connect(endpoint, said, deadline);
    if (client || !client.error().is(Errc::kPeerLost)) return client;
    // Closed in answer to PING: perhaps a server that knows none, so once more without.
    const bool closed = client.error().detail.ends_with("closed the connection");
    if (closed && !dropped_ping && options.dialect == StoreDialect::kTorch25) {
      dropped_ping = true;
      said.dialect = StoreDialect::kTorch22;
      continue;
    }
    if (Clock::now() + pause >= deadline) return client;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kPauseMax);
  }
}

Result<std::unique_ptr<StoreClient>> StoreClient::try_connect(
    const Endpoint& endpoint, const Options& options, TimePoint deadline) {
  auto socket = connect_to(endpoint, deadline);
  if (!socket) return socket.error();
  std::unique_ptr<StoreClient> client(new StoreClient(std::move(*socket), options));
  const auto nonce = static_cast<std::uint32_t>(::getpid());
  const bool pings = options.dialect >= StoreDialect::kTorch25;
  StoreEncoder opening;
  opening.validate();
  if (pings) opening.ping(nonce);
  auto const sent = send_all(client->socket_.get(), opening.bytes(), deadline);
  if (!sent) return sent.error();
  if (!pings) return client;
  const auto answer = client->receive_number<std::uint32_t>(deadline);
  if (!answer) return with_context(endpoint.to_string(), answer.error());
  if (*answer != nonce) {
    return make_error(
        Errc::kProtocol, fmt::format("{}: a wrong answer to PING", endpoint.to_string()));
  }
  return client;
}

Result<void> StoreClient::set(std::string_view key, std::string_view value) {
  StoreEncoder request;
  request.valued(StoreOp::kSet, stored_name(key), value);
  return send(request);
}

Result<void> StoreClient::multi_set(std::span<const std::pair<std::string, std::string>> pairs) {
  std::vector<std::pair<std::string, std::string>> stored;
  stored.reserve(pairs.size());
  for (const auto& [key, value] : pairs) {
    stored.emplace_back(stored_name(key), value);
  }
  StoreEncoder request;
  request.multi_set(stored);
  return send(request);
}

Result<void> StoreClient::append(std::string_view key, std::string_view value) {
  StoreEncoder request;
  request.valued(StoreOp::kAppend, stored_name(key), value);
  return send(request);
}

Result<std::string> StoreClient::get(std::string_view key, TimePoint deadline) {
  const std::array<std::string, 1> keys = {std::string(key)};
  auto const waited = wait(keys, deadline);
  if (!waited) return waited.error();
  StoreEncoder request;
  request.named(StoreOp::kGet, stored_name(key));
  auto const sent = send(request);
  if (!sent) return sent.error();
  return receive_string(answer_deadline());
}

Result<std::vector<std::string>> StoreClient::multi_get(
    std::span<const std::string> keys, TimePoint deadline) {
  auto const waited = wait(keys, deadline);
  if (!waited) return waited.error();
  StoreEncoder request;
  request.listed(StoreOp::kMultiGet, stored_names(keys));
  auto const sent = send(request);
  if (!sent) return sent.error();
  std::vector<std::string> values;
  values.reserve(keys.size());
  while (values.size() < keys.size()) {
    auto value = receive_string(answer_deadline());
    if (!value) return value.error();
    values.push_back(std::move(*value));
  }
  return values;
}

Result<std::int64_t> StoreClient::add(std::string_view key, std::int64_t delta) {
  StoreEncoder request;
  request.add(stored_name(key), delta);
  return ask<std::int64_t>(request);
}

Result<std::int64_t> StoreClient::announce() {
  StoreEncoder request;
  request.add(kInitKey, 1);
  return ask<std::int64_t>(request);
}

Result<std::string> StoreClient::compare_set(
    std::string_view key, std::string_view expected, std::string_view desired) {
  StoreEncoder request;
  request.compare_set(stored_name(key), expected, desired);
  auto const sent = send(request);
  if (!sent) return sent.error();
  return receive_string(answer_deadline());
}

Result<void> StoreClient::wait(std::span<const std::string> keys, TimePoint deadline) {
  StoreEncoder request;
  request.listed(StoreOp::kWait, stored_names(keys));
  auto sent = send(request);
  if (!sent) return sent;
  const auto answer = receive_number<std::uint8_t>(deadline);
  if (answer && *answer == kStopWaiting) return {};
  if (answer) return make_error(Errc::kProtocol, "a wrong answer to WAIT");
  if (!answer.error().is(Errc::kTimedOut)) return answer.error();
  auto cancelled = cancel_wait();
  if (!cancelled) return cancelled;
  return make_error(Errc::kTimedOut, fmt::format("no value yet for {}", joined(keys)));
}

Result<bool> StoreClient::check(std::span<const std::string> keys) {
  StoreEncoder request;
  request.listed(StoreOp::kCheck, stored_names(keys));
  const auto answer = ask<std::uint8_t>(request);
  if (!answer) return answer.error();
  return *answer == kReady;
}

Result<bool> StoreClient::delete_key(std::string_view key) {
  StoreEncoder request;
  request.named(StoreOp::kDeleteKey, stored_name(key));
  const auto deleted = ask<std::int64_t>(request);
  if (!deleted) return deleted.error();
  return *deleted == 1;
}

Result<std::int64_t> StoreClient::num_keys() {
  StoreEncoder request;
  request.bare(StoreOp::kGetNumKeys);
  return ask<std::int64_t>(request);
}

Result<std::vector<std::string>> StoreClient::list_keys() {
  auto const known = require(StoreDialect::kTorch210, "LIST_KEYS");
  if (!known) return known.error();
  StoreEncoder request;
  request.bare(StoreOp::kListKeys);
  const auto count = ask<std::uint64_t>(request);
  if (!count) return count.error();
  if (*count > kListedKeysMax) return make_error(Errc::kProtocol, "LIST_KEYS: too many keys");
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < *count; ++i) {
    auto key = receive_string(answer_deadline());
    if (!key) return key.error();
    if (key->starts_with('/')) keys.push_back(key->substr(1));
  }
  return keys;
}

Result<void> StoreClient::queue_push(std::string_view name, std::string_view value) {
  auto known = require(StoreDialect::kTorch28, "QUEUE_PUSH");
  if (!known) return known;
  StoreEncoder request;
  request.valued(StoreOp::kQueuePush, stored_name(name), value);
  return send(request);
}

Result<std::optional<std::string>> StoreClient::queue_pop(std::string_view name) {
  auto const known = require(StoreDialect::kTorch28, "QUEUE_POP");
  if (!known) return known.error();
  StoreEncoder request;
  request.named(StoreOp::kQueuePop, stored_name(name));
  const auto length = ask<std::int64_t>(request);
  if (!length) return length.error();
  if (*length == 0) return std::optional<std::string>();
  auto value = receive_string(answer_deadline());
  if (!value) return value.error();
  return std::optional<std::string>(std::move(*value));
}

Result<std::int64_t> StoreClient::queue_len(std::string_view name) {
  auto const known = require(StoreDialect::kTorch28, "QUEUE_LEN");
  if (!known) return known.error();
  StoreEncoder request;
  request.named(StoreOp::kQueueLen, stored_name(name));
  return ask<std::int64_t>(request);
}

Result<void> StoreClient::barrier(
    std::string_view key, std::int64_t world_size, TimePoint deadline) {
  const auto arrived = add(fmt::format("{}/num_members", key), 1);
  if (!arrived) return arrived.error();
  const std::array<std::string, 1> last = {fmt::format("{}/last_member", key)};
  if (*arrived == world_size) {
    auto sent = set(last[0], "1");
    if (!sent) return sent;
  }
  return wait(last, deadline);
}

Result<void> StoreClient::send(const StoreEncoder& requests) {
  return send_all(socket_.get(), requests.bytes(), answer_deadline());
}

// The answer to a WAIT that has just been satisfied may stand before that to the cancel.
Result<void> StoreClient::cancel_wait() {
  StoreEncoder request;
  request.bare(StoreOp::kCancelWait);
  auto sent = send(request);
  if (!sent) return sent;
  for (;;) {
    const auto answer = receive_number<std::uint8_t>(answer_deadline());
    if (!answer) return answer.error();
    if (*answer == kWaitCanceled) return {};
  }
}

template <class Number>
Result<Number> StoreClient::receive_number(TimePoint deadline) {
  Number number{};
  auto const got = receive_all(
      socket_.get(), std::span(reinterpret_cast<char*>(&number), sizeof(number)), deadline);
  if (!got) return got.error();
  return number;
}

Result<std::string> StoreClient::receive_string(TimePoint deadline) {
  const auto length = receive_number<std::uint64_t>(deadline);
  if (!length) return length.error();
  if (*length > kValueBytesMax) {
    return make_error(Errc::kProtocol, fmt::format("the server sends {} bytes", *length));
  }
  std::string text(*length, '\0');
  auto const got = receive_all(socket_.get(), text, deadline);
  if (!got) return got.error();
  return text;
}

template <class Number>
Result<Number> StoreClient::ask(const StoreEncoder& request) {
  auto const sent = send(request);
  if (!sent) return sent.error();
  return receive_number<Number>(answer_deadline());
}

Result<void> StoreClient::require(StoreDialect dialect, std::string_view operation) const {
  if (options_.dialect >= dialect) return {};
  return make_error(
      Errc::kInvalidArgument, fmt::format("{}: the server is too old for it", operation));
}

}  // namespace ddprun
