#include "rendezvous/core/store.hpp"

#include "rendezvous/core/counter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string>
#include <utility>

namespace ddprun {
namespace {

// What an entry costs beside its bytes: nodes of the map, headers, the allocator's rounding.
constexpr std::size_t kEntryBytes = 128;

/// Whether a reply may show it: smaller ones are copied there.
bool is_shown(const Value& value) {
  return value.size() >= StoreReplies::kSharedIfMuchBytesMin && value.is_shared();
}

Value decimal(std::int64_t number) {
  std::array<char, 24> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return Value(std::string_view(text.data(), static_cast<std::size_t>(end - text.data())));
}

// A key that is absent reads as an empty value.
void put_found(const Value* found, StoreReplies& replies) {
  if (found == nullptr) return replies.put_i64(0);
  replies.put_value(*found);
}

}  // namespace

Store::Store(const StoreLimits& limits)
    : limits_(limits), waits_([this](std::string_view name) { return has_items(name); }) {}

Result<void> Store::apply(
    Link link, StoreRequest& request, StoreReplies& replies, std::vector<Link>& released) {
  const std::string_view key = request.key;
  switch (request.op) {
    case StoreOp::kValidate:
      return {};
    case StoreOp::kSet:
      return set(key, std::move(request.value), released);
    case StoreOp::kCompareSet:
      return compare_set(request, replies, released);
    case StoreOp::kGet:
      put_found(keys_.find(key), replies);
      return {};
    case StoreOp::kAdd: {
      std::int64_t sum = 0;
      auto added = add(key, request.number, sum, released);
      if (added) replies.put_i64(sum);
      return added;
    }
    case StoreOp::kCheck:
      replies.put_u8(all_satisfied(request.keys) ? kKeysExist : kKeysMissing);
      return {};
    case StoreOp::kWait:
      return wait(link, request, replies);
    case StoreOp::kGetNumKeys:
      replies.put_i64(static_cast<std::int64_t>(keys_.size()));
      return {};
    case StoreOp::kDeleteKey:
      replies.put_i64(remove(key));
      return {};
    case StoreOp::kAppend:
      return append(request, released);
    case StoreOp::kMultiGet:
      multi_get(request.keys, replies);
      return {};
    case StoreOp::kMultiSet:
      return multi_set(request, released);
    case StoreOp::kCancelWait:
      waits_.drop(link);
      replies.put_u8(kWaitCanceled);
      return {};
    case StoreOp::kPing:
      replies.put_u32(request.nonce);
      return {};
    case StoreOp::kQueuePush:
      return push(request, released);
    case StoreOp::kQueuePop:
      pop(key, replies);
      return {};
    case StoreOp::kQueueLen:
      replies.put_i64(static_cast<std::int64_t>(queue_length(key)));
      return {};
    case StoreOp::kListKeys:
      return list(replies);
    case StoreOp::kBarrier:
      return barrier(link, request, replies, released);
  }
  return make_error(Errc::kProtocol, "unknown opcode");
}

Result<void> Store::set(std::string_view key, Value value, Released& released) {
  Value* found = keys_.find(key);
  if (found == nullptr) {
    auto room = room_for(key.size() + value.size() + kEntryBytes, 1);
    if (!room) return room;
    stored_bytes_ += key.size() + value.size() + kEntryBytes;
    found = &keys_.add(key, std::move(value));
  } else {
    const std::size_t before = found->size();
    const std::size_t freed = is_shown(*found) ? 0 : before;
    if (value.size() > freed) {
      auto room = room_for(value.size() - freed, 0);
      if (!room) return room;
    }
    stored_bytes_ += value.size();
    stored_bytes_ -= before;
    keep_if_shown(*found);
    *found = std::move(value);
  }
  written(key, *found, released);
  return {};
}

Result<void> Store::compare_set(StoreRequest& request, StoreReplies& replies, Released& released) {
  const Value* const found = keys_.find(request.key);
  const std::string_view current = found != nullptr ? found->view() : std::string_view();
  if (current != request.expected.view()) {
    // As upstream: on an absent key the reply is what the caller expected, which means failure.
    replies.put_value(found != nullptr ? *found : request.expected);
    return {};
  }
  const Value desired = request.value;
  auto done = set(request.key, desired, released);
  if (done) replies.put_value(desired);
  return done;
}

Result<void> Store::append(StoreRequest& request, Released& released) {
  Value* const found = keys_.find(request.key);
  if (found == nullptr) return set(request.key, std::move(request.value), released);
  Value& value = *found;
  const std::size_t more = request.value.size();
  if (value.size() + more > limits_.grown_value_bytes_max) {
    return make_error(
        Errc::kLimit,
        fmt::format(
            "APPEND to a value of {} bytes, limit {}",
            value.size() + more,
            limits_.grown_value_bytes_max));
  }
  auto room = room_for(more + (is_shown(value) ? value.size() : 0), 0);
  if (!room) return room;
  keep_if_shown(value);  // what is appended to is then a copy
  value.append(request.value.view());
  stored_bytes_ += more;
  written(request.key, value, released);
  return {};
}

Result<void> Store::add(
    std::string_view key, std::int64_t delta, std::int64_t& sum, Released& released) {
  const Value* const found = keys_.find(key);
  std::int64_t before = 0;
  if (found != nullptr) {
    const auto count = read_counter(found->view());
    if (!count) return make_error(Errc::kProtocol, "ADD to a value that is not a number");
    before = *count;
  }
  if (__builtin_add_overflow(before, delta, &sum)) {
    return make_error(Errc::kProtocol, fmt::format("ADD overflows: {} and {}", before, delta));
  }
  return set(key, decimal(sum), released);
}

Result<void> Store::multi_set(StoreRequest& request, Released& released) {
  // Counted as if every key were new, so that the whole request fits or nothing of it is stored.
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < request.values.size(); ++i) {
    bytes += request.keys[i].size() + request.values[i].size() + kEntryBytes;
  }
  auto room = room_for(bytes, request.values.size());
  if (!room) return room;
  for (std::size_t i = 0; i < request.values.size(); ++i) {
    auto done = set(request.keys[i], std::move(request.values[i]), released);
    if (!done) return done;
  }
  return {};
}

Result<void> Store::room_to_wait(std::size_t names, std::size_t bytes) const {
  if (waits_.registrations() + names > limits_.registrations_max) {
    return make_error(
        Errc::kLimit, fmt::format("{} names are waited for", limits_.registrations_max));
  }
  const std::size_t each = StoreWaits::kNameBytes + StoreWaits::kRegistrationBytes;
  if (waits_.bytes() + bytes + names * each > limits_.waited_bytes_max) {
    return make_error(
        Errc::kLimit,
        fmt::format("the names that are waited for take {} bytes", limits_.waited_bytes_max));
  }
  return {};
}

Result<void> Store::wait(Link link, const StoreRequest& request, StoreReplies& replies) {
  waits_.drop(link);  // a second WAIT replaces the first
  if (all_satisfied(request.keys)) {
    replies.put_u8(kStopWaiting);
    return {};
  }
  const std::size_t names = request.keys.size();
  if (auto const room = room_to_wait(names, request.keys.bytes()); !room) return room;
  for (std::size_t i = 0; i < names; ++i) {
    const std::string_view name = request.keys[i];
    if (!satisfied(name)) waits_.wait_for(link, name);
  }
  return {};
}

Result<void> Store::barrier(
    Link link, const StoreRequest& request, StoreReplies& replies, Released& released) {
  if (auto const room = room_to_wait(1, request.key.size()); !room) return room;
  waits_.drop(link);
  std::int64_t count = 0;
  auto added = add(request.key, 1, count, released);
  if (!added) return added;
  if (count >= request.number) {
    replies.put_u8(kStopWaiting);
  } else {
    waits_.arrive(link, request.key, request.number);
  }
  return {};
}

Result<void> Store::push(StoreRequest& request, Released& released) {
  const std::size_t bytes = request.key.size() + request.value.size() + kEntryBytes;
  auto room = room_for(bytes, 0);
  if (!room) return room;
  if (queue_items_ >= limits_.queue_items_max) {
    return make_error(
        Errc::kLimit, fmt::format("QUEUE_PUSH: the limit is {} items", limits_.queue_items_max));
  }
  queues_[request.key].push_back(std::move(request.value));
  ++queue_items_;
  stored_bytes_ += bytes;
  waits_.item_pushed(request.key, released);
  return {};
}

void Store::multi_get(const KeyList& names, StoreReplies& replies) const {
  std::array<std::string_view, KeyTable::kAtOnceMax> keys;
  std::array<const Value*, KeyTable::kAtOnceMax> found{};
  for (std::size_t done = 0; done < names.size();) {
    const std::size_t count = std::min(names.size() - done, keys.size());
    for (std::size_t i = 0; i < count; ++i) {
      keys[i] = names[done + i];
    }
    keys_.find_all(std::span(keys).first(count), std::span(found).first(count));
    replies.put_values(std::span(found).first(count));
    done += count;
  }
}

void Store::pop(std::string_view name, StoreReplies& replies) {
  const auto found = queues_.find(name);
  if (found == queues_.end()) return replies.put_i64(0);
  std::deque<Value>& queue = found->second;
  replies.put_i64(static_cast<std::int64_t>(queue.size()));
  replies.put_value(queue.front());
  stored_bytes_ -= name.size() + queue.front().size() + kEntryBytes;
  --queue_items_;
  keep_if_shown(queue.front());
  queue.pop_front();
  if (queue.empty()) queues_.erase(found);
}

std::int64_t Store::remove(std::string_view key) {
  const Value* const found = keys_.find(key);
  if (found == nullptr) return 0;
  stored_bytes_ -= key.size() + found->size() + kEntryBytes;
  keep_if_shown(*found);
  keys_.remove(key);
  return 1;
}

Result<void> Store::list(StoreReplies& replies) const {
  std::size_t bytes = 0;
  keys_.for_each_key(
      [&bytes](std::string_view key) { bytes += sizeof(std::int64_t) + key.size(); });
  if (bytes > limits_.reply_bytes_max) {
    return make_error(
        Errc::kLimit,
        fmt::format("LIST_KEYS: a reply of {} bytes, limit {}", bytes, limits_.reply_bytes_max));
  }
  replies.put_i64(static_cast<std::int64_t>(keys_.size()));
  keys_.for_each_key([&replies](std::string_view key) { replies.put_string(key); });
  return {};
}

bool Store::satisfied(std::string_view name) const {
  return keys_.contains(name) || queues_.contains(name);
}

bool Store::all_satisfied(const KeyList& names) const {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!satisfied(names[i])) return false;
  }
  return true;
}

std::size_t Store::queue_length(std::string_view name) const {
  const auto found = queues_.find(name);
  return found == queues_.end() ? 0 : found->second.size();
}

void Store::keep_if_shown(const Value& value) {
  if (!is_shown(value)) return;
  untaken_.push_back(value);
  untaken_bytes_ += value.size();
}

void Store::free_taken() {
  constexpr std::size_t kAtOnceMax = 1'024;
  for (std::size_t i = std::min(untaken_.size(), kAtOnceMax); i > 0; --i) {
    Value value = std::move(untaken_.front());
    untaken_.pop_front();
    if (value.is_shared()) {
      untaken_.push_back(std::move(value));
    } else {
      untaken_bytes_ -= value.size();
    }
  }
}

Result<void> Store::room_for(std::size_t more_bytes, std::size_t more_keys) {
  const std::size_t bytes = stored_bytes_ + untaken_bytes_ + more_bytes;
  if (more_bytes > 0 && bytes > limits_.stored_bytes_max) {
    return make_error(
        Errc::kLimit, fmt::format("the store is full: {} bytes", limits_.stored_bytes_max));
  }
  if (more_keys > 0 && keys_.size() + more_keys > limits_.keys_max) {
    return make_error(Errc::kLimit, fmt::format("the store is full: {} keys", limits_.keys_max));
  }
  return {};
}

void Store::written(std::string_view key, const Value& value, Released& released) {
  if (waits_.registrations() == 0) return;
  waits_.key_written(key, released);
  if (!waits_.has_barrier(key)) return;
  if (const auto count = read_counter(value.view())) waits_.counted(key, *count, released);
}

}  // namespace ddprun
