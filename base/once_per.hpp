#pragma once

#include <cstddef>
#include <set>
#include <utility>

namespace ddprun {

/// Tells new keys from repeated ones, so that a message is printed once for each key and not
/// several times a second. Holds 1,024 keys; then it starts over.
template <typename Key>
class OncePer {
 public:
  bool is_first(Key key) {
    if (seen_.size() >= kKeysMax) seen_.clear();
    return seen_.insert(std::move(key)).second;
  }

 private:
  static constexpr std::size_t kKeysMax = 1'024;

  std::set<Key> seen_;
};

}  // namespace ddprun
