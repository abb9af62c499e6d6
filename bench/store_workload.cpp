#include "bench/store_workload.hpp"

#include "base/check.hpp"
#include "bench/store_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kListKeys = 128;
constexpr std::size_t kSmallBytes = 32;
constexpr std::size_t kLargeBytes = 65'536;
constexpr std::uint32_t kNonce = 4711;

// Sizes of replies.
constexpr std::size_t kPong = 4;
constexpr std::size_t kNumber = 8;
constexpr std::size_t kLength = 8;
constexpr std::size_t kByte = 1;

constexpr std::array<std::string_view, 12> kNames = {
    "ping",
    "set",
    "get",
    "add",
    "check",
    "multi_get",
    "multi_set",
    "set64k",
    "get64k",
    "value64k",
    "wait_fanout",
    "gloo"};

std::string key_of(int client) {
  return fmt::format("/bench/{:05}/key", client);
}

std::vector<std::string> list_of(int client) {
  std::vector<std::string> keys;
  keys.reserve(kListKeys);
  for (std::size_t i = 0; i < kListKeys; ++i) {
    keys.push_back(fmt::format("/bench/{:05}/list/{:03}", client, i));
  }
  return keys;
}

std::vector<std::pair<std::string, std::string>> pairs_of(int client) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::string& key : list_of(client)) {
    pairs.emplace_back(std::move(key), std::string(kSmallBytes, 'v'));
  }
  return pairs;
}

// With the process id, since an earlier load may have left its last round behind.
std::string round_key(std::int64_t round) {
  return fmt::format("/bench/{:010}/round/{:08}", ::getpid(), round);
}

// Also with the process id, since all have to wait.
std::string addresses_key(int worker) {
  return fmt::format("/default_pg/{}//cpu//0/{}", ::getpid(), worker);
}

/// A length and a host name of 16 letters, a length and an address, and eight bytes for each pair.
std::size_t addresses_bytes(int workers) {
  constexpr std::size_t kOwn = 168;
  return kOwn + kNumber * static_cast<std::size_t>(workers);
}

/// Appends one operation; returns the bytes of its reply.
std::size_t encode(StoreWorkload workload, int client, StoreEncoder& out) {
  const std::string key = key_of(client);
  switch (workload) {
    case StoreWorkload::kPing:
      out.ping(kNonce);
      return kPong;
    case StoreWorkload::kSet:
      out.valued(StoreOp::kSet, key, std::string(kSmallBytes, 'v'));
      return 0;
    case StoreWorkload::kGet:
      out.named(StoreOp::kGet, key);
      return kLength + kSmallBytes;
    case StoreWorkload::kAdd:
      out.add(fmt::format("/bench/{:05}/count", client), 1);
      return kNumber;
    case StoreWorkload::kCheck:
      out.listed(StoreOp::kCheck, std::vector<std::string>{key});
      return kByte;
    case StoreWorkload::kMultiGet:
      out.listed(StoreOp::kMultiGet, list_of(client));
      return kListKeys * (kLength + kSmallBytes);
    case StoreWorkload::kMultiSet:
      out.multi_set(pairs_of(client));
      return 0;
    case StoreWorkload::kValue64k:
    case StoreWorkload::kSet64k:
      out.valued(StoreOp::kSet, key, std::string(kLargeBytes, 'v'));
      if (workload == StoreWorkload::kSet64k) return 0;
      [[fallthrough]];
    case StoreWorkload::kGet64k:
      out.named(StoreOp::kGet, key);
      return kLength + kLargeBytes;
    case StoreWorkload::kWaitFanout:
    case StoreWorkload::kGloo:
      break;
  }
  DDPRUN_CHECK(false);  // neither is a row of equal operations
}

}  // namespace

StoreBatch opening_of(StoreWorkload workload, int client) {
  const bool large = workload == StoreWorkload::kGet64k || workload == StoreWorkload::kValue64k;
  StoreEncoder out;
  out.validate();
  if (workload == StoreWorkload::kMultiGet) out.multi_set(pairs_of(client));
  out.valued(StoreOp::kSet, key_of(client), std::string(large ? kLargeBytes : kSmallBytes, 'v'));
  out.ping(kNonce);
  return {.requests = out.bytes(), .reply_bytes = kPong, .operations = 0};
}

StoreBatch batch_of(StoreWorkload workload, int client, int operations) {
  StoreEncoder out;
  StoreBatch batch{.requests = {}, .reply_bytes = 0, .operations = operations};
  StoreEncoder one;
  const std::size_t reply = encode(workload, client, one);
  for (int i = 0; i < operations; ++i) {
    batch.requests += one.bytes();
    batch.reply_bytes += reply;
  }
  if (reply == 0) {
    out.ping(kNonce);
    batch.requests += out.bytes();
    batch.reply_bytes = kPong;
  }
  return batch;
}

StoreBatch fanout_wait(std::int64_t round) {
  StoreEncoder out;
  out.listed(StoreOp::kWait, std::vector<std::string>{round_key(round)});
  out.ping(kNonce);
  return {.requests = out.bytes(), .reply_bytes = kPong, .operations = 1};
}

StoreBatch fanout_set(std::int64_t round) {
  StoreEncoder out;
  out.valued(StoreOp::kSet, round_key(round), "1");
  out.named(StoreOp::kDeleteKey, round_key(round - 1));
  return {.requests = out.bytes(), .reply_bytes = kNumber, .operations = 0};
}

StoreBatch gloo_step(int workers, int worker, std::int64_t step) {
  constexpr int kRequests = 3;  // of each worker for each
  const std::string key = addresses_key(static_cast<int>(step / kRequests));
  StoreEncoder out;
  if (step == 0) {
    out.valued(StoreOp::kSet, addresses_key(worker), std::string(addresses_bytes(workers), 'a'));
  }
  if (step % kRequests == kRequests - 1) {
    out.named(StoreOp::kGet, key);
    return {
        .requests = out.bytes(),
        .reply_bytes = kLength + addresses_bytes(workers),
        .operations = 1};
  }
  out.listed(StoreOp::kWait, std::vector<std::string>{key});
  return {.requests = out.bytes(), .reply_bytes = kByte, .operations = 1};
}

std::int64_t gloo_steps(int workers) {
  return 3 * static_cast<std::int64_t>(workers);
}

std::string_view name_of(StoreWorkload workload) {
  return kNames.at(static_cast<std::size_t>(workload));
}

Result<StoreWorkload> workload_of(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format("'{}' is not one of {}", name, fmt::join(kNames, ", ")));
  }
  return static_cast<StoreWorkload>(found - kNames.begin());
}

std::vector<std::string> workload_names() {
  return {kNames.begin(), kNames.end()};
}

}  // namespace ddprun
