#pragma once

// What one client of the store says, byte by byte.
//
// The protocol has no frames: a request ends where its last field ends. This dialogue remembers
// where it stands within a field, so no byte is looked at twice however the stream was cut, and
// checks every length and count when it is read.
//
//   start --VALIDATE--> validated --any request but VALIDATE--> validated
//     |  anything else, wrong magic        |  unknown opcode, a length over its limit
//     +------------> error <---------------+

#include "base/error.hpp"
#include "rendezvous/core/store_limits.hpp"
#include "rendezvous/core/store_request.hpp"

#include <array>
#include <span>
#include <string_view>

namespace ddprun {

class StoreParser {
 public:
  /// What `limits` refers to outlives the parser.
  explicit StoreParser(const StoreLimits& limits) : limits_(limits) {}

  /// Takes bytes off the front of `input` until one request is complete (true) or `input` is empty
  /// (false). Fails with kProtocol or kLimit: the connection is to be closed, nothing more is read.
  Result<bool> read(std::string_view& input);

  /// The request that read() completed, until it is called again; what carries it out may move from
  /// its fields.
  StoreRequest& request() { return request_; }

  /// The request was carried out. Frees what a large one took: its client may be silent from here
  /// on, for as long as it likes.
  void carried_out();

  /// Where the next bytes of a large value belong, so that they can be received in place; empty
  /// unless the parser is within one.
  std::span<char> value_space();

  /// Counts bytes that were written to value_space(). The request is completed by the next read().
  void value_filled(std::size_t bytes);

  /// Whether the last value was large, so that the next one may be.
  bool expects_large() const { return expects_large_; }

  bool validated() const { return validated_; }

  /// What a request that has come in part takes in memory.
  std::size_t held_bytes() const;

 private:
  enum class Field : std::uint8_t;
  using Fields = std::array<Field, 4>;
  static const std::array<Fields, kStoreOps> kFields;

  Result<void> begin(std::uint8_t opcode);
  Result<bool> read_field(Field field, std::string_view& input);
  Result<bool> read_magic(std::string_view& input);
  Result<bool> read_key(std::string_view& input);
  Result<bool> read_value(std::string_view& input, Value& into);
  Result<bool> read_keys(std::string_view& input);
  void take_whole_keys(std::string_view& input);
  Result<bool> read_pairs(std::string_view& input);
  Result<bool> read_listed_key(std::string_view& input);
  Result<bool> read_count(std::string_view& input);
  Result<bool> read_length(std::string_view& input, std::size_t max, std::string_view what);
  template <class Number>
  bool read_number(std::string_view& input, Number& into);

  // More than twelve: a request may break off after any byte, and these say where.
  const StoreLimits& limits_;
  StoreRequest request_;
  bool validated_ = false;
  bool in_request_ = false;

  std::size_t field_ = 0;          // index in the fields of request_.op
  std::array<char, 8> partial_{};  // a number that arrives in pieces
  std::size_t partial_size_ = 0;   //
  bool has_length_ = false;        // of the string being read
  std::size_t missing_ = 0;        // bytes of that string still to come; values: value_
  bool has_count_ = false;         // of the list being read
  std::size_t items_left_ = 0;     // of that list
  bool at_pair_value_ = false;     // the key of the pair has been read
  ValueBuilder value_;             // while has_length_, in a value
  bool in_value_ = false;          // value_ is being filled
  bool expects_large_ = false;     // the last value was large
  std::size_t request_bytes_ = 0;  // lengths promised so far
};

}  // namespace ddprun
