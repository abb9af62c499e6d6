#pragma once

// The key space of one round: keys, queues, and who waits for what. What arrives on a connection
// becomes a StoreRequest; what is to be sent comes back as replies of that connection and as a
// list of links that have waited long enough. Nothing here waits, and no client's timeout is known.
//
// Semantics are those of the c10d TCPStore, with the deviations that docs/store.md lists.

#include "base/error.hpp"
#include "rendezvous/core/key_table.hpp"
#include "rendezvous/core/store_limits.hpp"
#include "rendezvous/core/store_replies.hpp"
#include "rendezvous/core/store_request.hpp"
#include "rendezvous/core/store_waits.hpp"
#include "rendezvous/core/value.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

namespace ddprun {

class Store {
 public:
  /// What `limits` refers to outlives the store.
  explicit Store(const StoreLimits& limits);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store() = default;

  /// Carries out one request of `link`, moving from its fields. Appends its reply to `replies`, and
  /// to `released` each link whose WAIT or BARRIER is over, to be answered STOP_WAITING. Fails with
  /// kProtocol or kLimit: `link` is to be closed, and nothing was changed.
  Result<void> apply(
      Link link, StoreRequest& request, StoreReplies& replies, std::vector<Link>& released);

  /// Frees values that were deleted or replaced, once their last reader has taken them. A call
  /// looks at a limited number of them.
  void free_taken();

  /// Releases memory that clients which have left took.
  void shrink() { waits_.shrink(); }

  /// The connection is gone: later writes are not spent on it.
  void lost(Link link) { waits_.drop(link); }

  /// Links in a WAIT or BARRIER.
  std::vector<Link> waiting() const { return waits_.links(); }

  std::size_t keys() const { return keys_.size(); }
  std::size_t queue_items() const { return queue_items_; }
  std::size_t registrations() const { return waits_.registrations(); }

  /// Bytes of keys, values and queue items, with what each entry costs beside them.
  std::size_t stored_bytes() const { return stored_bytes_; }
  /// Bytes of values that were deleted or replaced, and which replies still show.
  std::size_t untaken_bytes() const { return untaken_bytes_; }
  /// What all of it takes in memory, with what clients wait for.
  std::size_t bytes() const { return stored_bytes_ + untaken_bytes_ + waits_.bytes(); }

 private:
  using Released = std::vector<Link>;

  Result<void> set(std::string_view key, Value value, Released& released);
  Result<void> compare_set(StoreRequest& request, StoreReplies& replies, Released& released);
  Result<void> append(StoreRequest& request, Released& released);
  Result<void> add(std::string_view key, std::int64_t delta, std::int64_t& sum, Released& released);
  Result<void> multi_set(StoreRequest& request, Released& released);
  Result<void> room_to_wait(std::size_t names, std::size_t bytes) const;
  Result<void> wait(Link link, const StoreRequest& request, StoreReplies& replies);
  Result<void> barrier(
      Link link, const StoreRequest& request, StoreReplies& replies, Released& released);
  Result<void> push(StoreRequest& request, Released& released);
  void multi_get(const KeyList& names, StoreReplies& replies) const;
  void pop(std::string_view name, StoreReplies& replies);
  std::int64_t remove(std::string_view key);
  Result<void> list(StoreReplies& replies) const;

  bool satisfied(std::string_view name) const;
  bool all_satisfied(const KeyList& names) const;
  bool has_items(std::string_view name) const { return queues_.contains(name); }
  std::size_t queue_length(std::string_view name) const;
  void keep_if_shown(const Value& value);
  Result<void> room_for(std::size_t more_bytes, std::size_t more_keys);
  void written(std::string_view key, const Value& value, Released& released);

  const StoreLimits& limits_;
  KeyTable keys_;
  NameMap<std::deque<Value>> queues_;  // none of them empty
  std::size_t queue_items_ = 0;
  std::size_t stored_bytes_ = 0;
  // No longer among the above, but in replies that their readers have not taken: readers that take
  // nothing could otherwise hold any number of values that were written and deleted.
  std::deque<Value> untaken_;
  std::size_t untaken_bytes_ = 0;
  StoreWaits waits_;
};

}  // namespace ddprun
