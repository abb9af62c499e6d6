#pragma once

// A store and its clients without sockets: bytes in, bytes out. Requests are encoded here
// separately, so that a mistake in our encoder cannot hide the same one in our parser.

#include "rendezvous/core/store.hpp"
#include "rendezvous/core/store_parser.hpp"

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::testing {

/// Bytes from hex; spaces are ignored.
inline std::string hex(std::string_view text) {
  std::string bytes;
  std::string digits;
  for (const char c : text) {
    if (c != ' ') digits.push_back(c);
  }
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

inline std::string u32(std::uint32_t value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

inline std::string i64(std::int64_t value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

inline std::string op(int code) {
  return std::string(1, static_cast<char>(code));
}

inline std::string str(std::string_view text) {
  return i64(static_cast<std::int64_t>(text.size())) + std::string(text);
}

inline std::string strs(const std::vector<std::string>& texts) {
  std::string bytes = i64(static_cast<std::int64_t>(texts.size()));
  for (const auto& text : texts) {
    bytes += str(text);
  }
  return bytes;
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The requests.
inline std::string validate() {
  return hex("00 CEF7853C");
}
inline std::string set(std::string_view k, std::string_view v) {
  return op(1) + str(k) + str(v);
}
inline std::string compare_set(std::string_view k, std::string_view e, std::string_view d) {
  return op(2) + str(k) + str(e) + str(d);
}
inline std::string get(std::string_view k) {
  return op(3) + str(k);
}
inline std::string add(std::string_view k, std::int64_t n) {
  return op(4) + str(k) + i64(n);
}
inline std::string check(const std::vector<std::string>& k) {
  return op(5) + strs(k);
}
inline std::string wait(const std::vector<std::string>& k) {
  return op(6) + strs(k);
}
inline std::string num_keys() {
  return op(7);
}
inline std::string delete_key(std::string_view k) {
  return op(8) + str(k);
}
inline std::string append(std::string_view k, std::string_view v) {
  return op(9) + str(k) + str(v);
}
inline std::string multi_get(const std::vector<std::string>& k) {
  return op(10) + strs(k);
}
inline std::string multi_set(const Pairs& pairs) {
  std::string bytes = op(11) + i64(static_cast<std::int64_t>(pairs.size()));
  for (const auto& [k, v] : pairs) {
    bytes += str(k) + str(v);
  }
  return bytes;
}
inline std::string cancel_wait() {
  return op(12);
}
inline std::string ping(std::uint32_t nonce) {
  return op(13) + u32(nonce);
}
inline std::string push(std::string_view q, std::string_view v) {
  return op(14) + str(q) + str(v);
}
inline std::string pop(std::string_view q) {
  return op(15) + str(q);
}
inline std::string queue_len(std::string_view q) {
  return op(16) + str(q);
}
inline std::string list_keys() {
  return op(17);
}
inline std::string barrier(std::string_view k, std::int64_t world) {
  return op(18) + str(k) + i64(world);
}

// The replies of one byte.
inline const std::string kReadyReply = op(0);
inline const std::string kNotReadyReply = op(1);
inline const std::string kStop = op(0);
inline const std::string kCanceled = op(1);

/// A Store and any number of clients.
class StoreWorld {
 public:
  explicit StoreWorld(const StoreLimits& limits = {}) : limits_(limits), store_(limits_) {}
  StoreWorld(const StoreWorld&) = delete;
  StoreWorld& operator=(const StoreWorld&) = delete;
  ~StoreWorld() = default;

  /// Feeds bytes of client `who`; a new client sends VALIDATE first.
  void say(int who, std::string_view bytes) {
    if (!clients_.contains(who)) feed(who, validate());
    feed(who, bytes);
  }

  /// Feeds bytes without a VALIDATE before them.
  void feed(int who, std::string_view bytes) {
    Client& client = clients_.try_emplace(who, limits_).first->second;
    while (!client.closed) {
      auto complete = client.parser.read(bytes);
      if (complete && !*complete) return;
      std::vector<Link> released;
      const auto applied = complete ? store_.apply(
                                          Link{static_cast<std::uint64_t>(who)},
                                          client.parser.request(),
                                          client.replies,
                                          released)
                                    : Result<void>(complete.error());
      client.parser.carried_out();
      for (const Link link : released) {
        clients_.at(static_cast<int>(link)).replies.put_u8(kStopWaiting);
      }
      if (!applied) lose(who, applied.error());
    }
  }

  /// What client `who` was sent since the last call.
  std::string hear(int who) {
    StoreReplies& replies = clients_.at(who).replies;
    std::string heard;
    std::array<std::string_view, 3> pieces;  // few, so that gather() must continue
    while (replies.unsent() > 0) {
      std::size_t taken = 0;
      for (std::size_t i = 0, used = replies.gather(pieces); i < used; ++i) {
        heard += pieces.at(i);
        taken += pieces.at(i).size();
      }
      replies.consume(taken);
    }
    return heard;
  }

  /// Sends one request and returns the immediate reply.
  std::string ask(int who, std::string_view bytes) {
    say(who, bytes);
    return hear(who);
  }

  void leave(int who) { lose(who, make_error(Errc::kPeerLost, "left")); }
  bool closed(int who) const { return clients_.at(who).closed; }
  const Error& why(int who) const { return clients_.at(who).why; }
  bool known(int who) const { return clients_.contains(who); }
  /// Reconnects `who`. REQUIRES: closed(who).
  void forget(int who) { clients_.erase(who); }
  Store& store() { return store_; }

 private:
  struct Client {
    explicit Client(const StoreLimits& limits) : parser(limits) {}
    StoreParser parser;
    StoreReplies replies;
    bool closed = false;
    Error why;
  };

  void lose(int who, const Error& why) {
    clients_.at(who).closed = true;
    clients_.at(who).why = why;
    store_.lost(Link{static_cast<std::uint64_t>(who)});
  }

  StoreLimits limits_;
  Store store_;
  std::map<int, Client> clients_;
};

}  // namespace ddprun::testing
