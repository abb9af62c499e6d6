#pragma once

// Who waits for what. Part of Store, apart from it because each link's wait is linked both ways:
// by name, to wake in order of registration, and by link, to drop a wait in time linear in its own
// names whatever the others wait for.

#include "rendezvous/core/store_request.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun {

/// Lets maps of std::string be searched by std::string_view without a copy.
struct NameHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>()(name);
  }
};
template <class T>
using NameMap = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

/// Pending WAITs and BARRIERs, at most one of them per link.
class StoreWaits {
 public:
  /// Whether a queue of this name holds anything now.
  using QueueCheck = std::function<bool(std::string_view)>;

  explicit StoreWaits(QueueCheck has_items) : has_items_(std::move(has_items)) {}
  ~StoreWaits() = default;
  StoreWaits(const StoreWaits&) = delete;
  StoreWaits& operator=(const StoreWaits&) = delete;

  /// Lets `link` wait for one more name. REQUIRES: it is not in a barrier.
  void wait_for(Link link, std::string_view name);

  /// Lets `link` wait until the counter `key` reaches `world_size`. REQUIRES: it waits for nothing.
  void arrive(Link link, std::string_view key, std::int64_t world_size);

  /// Forgets what `link` waits for.
  void drop(Link link);

  /// `key` was written: everybody who waited for it has seen it, for good. Appends the links that
  /// now lack nothing.
  void key_written(std::string_view key, std::vector<Link>& released);

  /// The barrier counter `key` has become `count`. Appends those whose world size is reached.
  void counted(std::string_view key, std::int64_t count, std::vector<Link>& released);

  /// Something was pushed to the queue `name`: releases the first link that this completes, if any.
  void item_pushed(std::string_view name, std::vector<Link>& released);

  bool has_barrier(std::string_view key) const { return barriers_.contains(key); }

  /// Releases the memory of tables that have become much too large.
  void shrink();

  /// Those that wait.
  std::vector<Link> links() const;

  /// How many names are waited for, counted once per link that does.
  std::size_t registrations() const { return registrations_; }

  /// What a name costs once, and each link that waits for it, beside the bytes of the name: nodes
  /// of lists and maps, and the allocator's rounding.
  static constexpr std::size_t kNameBytes = 128;
  static constexpr std::size_t kRegistrationBytes = 64;

  /// What all of them take in memory.
  std::size_t bytes() const { return name_bytes_ + registrations_ * kRegistrationBytes; }

 private:
  struct Wait;
  struct Place {            // one link in the line for one name
    Wait* wait = nullptr;   // whose
    std::size_t index = 0;  // in wait->missing
  };
  using Line = std::list<Place>;  // in order of registration
  using Lines = NameMap<Line>;
  struct Missing {  // one name that a link lacks
    Lines::value_type* line = nullptr;
    Line::iterator place;
  };
  using Arrivals = std::multimap<std::int64_t, Link>;  // by world size
  using Barriers = NameMap<Arrivals>;
  struct Wait {
    Link link{};
    std::vector<Missing> missing;             // WAIT
    Barriers::value_type* barrier = nullptr;  // BARRIER
    Arrivals::iterator arrival;               // valid if barrier != nullptr
    bool released = false;
  };

  template <class T>
  NameMap<T>::iterator open(NameMap<T>& lines, std::string_view name);
  template <class T>
  void close(NameMap<T>& lines, NameMap<T>::iterator line);
  void drop_from(std::size_t first, const std::vector<Link>& links);
  void forget_missing(const Place& place);
  bool lacks_nothing(const Wait& wait) const;

  QueueCheck has_items_;
  Lines lines_;
  Barriers barriers_;
  std::unordered_map<Link, Wait> waits_;
  std::size_t registrations_ = 0;
  std::size_t name_bytes_ = 0;  // of lines_ and barriers_, each name once
};

}  // namespace ddprun
