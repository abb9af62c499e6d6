#pragma once

// Requests of the c10d TCPStore protocol as bytes; the client's side of store_parser.hpp.

#include "rendezvous/core/store_request.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {

/// Appends requests to one string, to be sent together.
class StoreEncoder {
 public:
  void validate();
  void ping(std::uint32_t nonce);
  void add(std::string_view key, std::int64_t delta);
  void multi_set(std::span<const std::pair<std::string, std::string>> pairs);

  /// Opcode and key: GET, DELETE_KEY, QUEUE_POP, QUEUE_LEN.
  void named(StoreOp op, std::string_view key);
  /// Opcode, key and value: SET, APPEND, QUEUE_PUSH.
  void valued(StoreOp op, std::string_view key, std::string_view value);
  /// Opcode and list of keys: CHECK, WAIT, MULTI_GET.
  void listed(StoreOp op, std::span<const std::string> keys);

  const std::string& bytes() const { return bytes_; }

 private:
  void put_op(StoreOp op);
  void put_raw(const void* data, std::size_t size);
  void put_string(std::string_view text);

  std::string bytes_;
};

}  // namespace ddprun
