#include "rendezvous/core/store_parser.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace ddprun {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

constexpr std::uint32_t kSwappedMagic = 0xCEF7853C;

// Below this a value is copied from the read buffer; a system call more would cost as much.
constexpr std::size_t kInPlaceBytes = 16'384;

// A list's memory is not reserved from its count: that is a promise, not data.

}  // namespace

enum class StoreParser::Field : std::uint8_t {
  kEnd,
  kMagic,
  kNonce,
  kNumber,
  kKey,
  kValue,
  kExpected,
  kKeys,
  kPairs,
};

const std::array<StoreParser::Fields, kStoreOps> StoreParser::kFields = {{
    {Field::kMagic},                                 // VALIDATE
    {Field::kKey, Field::kValue},                    // SET
    {Field::kKey, Field::kExpected, Field::kValue},  // COMPARE_SET
    {Field::kKey},                                   // GET
    {Field::kKey, Field::kNumber},                   // ADD
    {Field::kKeys},                                  // CHECK
    {Field::kKeys},                                  // WAIT
    {},                                              // GETNUMKEYS
    {Field::kKey},                                   // DELETE_KEY
    {Field::kKey, Field::kValue},                    // APPEND
    {Field::kKeys},                                  // MULTI_GET
    {Field::kPairs},                                 // MULTI_SET
    {},                                              // CANCEL_WAIT
    {Field::kNonce},                                 // PING
    {Field::kKey, Field::kValue},                    // QUEUE_PUSH
    {Field::kKey},                                   // QUEUE_POP
    {Field::kKey},                                   // QUEUE_LEN
    {},                                              // LIST_KEYS
    {Field::kKey, Field::kNumber},                   // BARRIER
}};

Result<bool> StoreParser::read(std::string_view& input) {
  if (!in_request_) {
    if (input.empty()) return false;
    auto const begun = begin(static_cast<std::uint8_t>(input.front()));
    if (!begun) return begun.error();
    input.remove_prefix(1);
  }
  const Fields& fields = kFields[static_cast<std::size_t>(request_.op)];
  while (fields[field_] != Field::kEnd) {
    auto complete = read_field(fields[field_], input);
    if (!complete || !*complete) return complete;
    ++field_;
    has_length_ = false;
    has_count_ = false;
  }
  in_request_ = false;
  return true;
}

void StoreParser::carried_out() {
  request_.value = Value();
  request_.expected = Value();
  request_.keys.clear();
  request_.values = std::vector<Value>();
}

std::span<char> StoreParser::value_space() {
  if (!in_value_ || value_.missing() < kInPlaceBytes) return {};
  return value_.space();
}

void StoreParser::value_filled(std::size_t bytes) {
  value_.filled(bytes);
}

std::size_t StoreParser::held_bytes() const {
  if (!in_request_) return 0;
  constexpr std::size_t kItemBytes = 48;  // of a small value, beside its bytes
  const std::size_t still_to_come = in_value_ ? value_.missing() : missing_;
  const std::size_t bytes = request_bytes_ - (has_length_ ? still_to_come : 0);
  return bytes + request_.values.size() * kItemBytes;
}

Result<void> StoreParser::begin(std::uint8_t opcode) {
  if (opcode >= kStoreOps) {
    return make_error(Errc::kProtocol, fmt::format("unknown opcode 0x{:02x}", opcode));
  }
  const auto op = static_cast<StoreOp>(opcode);
  if (validated_ == (op == StoreOp::kValidate)) {
    return make_error(
        Errc::kProtocol,
        validated_ ? "a second VALIDATE"
                   : fmt::format("opcode 0x{:02x} before VALIDATE (torch 2.1 or older?)", opcode));
  }
  request_.op = op;
  in_request_ = true;
  field_ = 0;
  request_bytes_ = 0;
  return {};
}

Result<bool> StoreParser::read_field(Field field, std::string_view& input) {
  switch (field) {
    case Field::kMagic:
      return read_magic(input);
    case Field::kNonce:
      return read_number(input, request_.nonce);
    case Field::kNumber:
      return read_number(input, request_.number);
    case Field::kKey:
      return read_key(input);
    case Field::kValue:
      return read_value(input, request_.value);
    case Field::kExpected:
      return read_value(input, request_.expected);
    case Field::kKeys:
      return read_keys(input);
    case Field::kPairs:
      return read_pairs(input);
    case Field::kEnd:
      break;
  }
  return true;
}

Result<bool> StoreParser::read_magic(std::string_view& input) {
  std::uint32_t magic = 0;
  if (!read_number(input, magic)) return false;
  if (magic == kSwappedMagic) {
    return make_error(Errc::kProtocol, "a byte-swapped VALIDATE (a big-endian client?)");
  }
  if (magic != kStoreMagic) {
    return make_error(
        Errc::kProtocol, fmt::format("VALIDATE with 0x{:08x} (torch 2.1 or older?)", magic));
  }
  validated_ = true;
  return true;
}

Result<bool> StoreParser::read_key(std::string_view& input) {
  if (!has_length_) {
    auto complete = read_length(input, limits_.key_bytes_max, "key");
    if (!complete || !*complete) return complete;
    request_.key.clear();
  }
  const std::string_view part = input.substr(0, missing_);
  request_.key.append(part);
  input.remove_prefix(part.size());
  missing_ -= part.size();
  return missing_ == 0;
}

Result<bool> StoreParser::read_value(std::string_view& input, Value& into) {
  if (!has_length_) {
    auto complete = read_length(input, limits_.value_bytes_max, "value");
    if (!complete || !*complete) return complete;
    value_.start(missing_);
    expects_large_ = missing_ >= kInPlaceBytes;
    in_value_ = true;
  }
  const std::string_view part = input.substr(0, value_.missing());
  value_.append(part);
  input.remove_prefix(part.size());
  if (value_.missing() > 0) return false;
  into = value_.take();
  in_value_ = false;
  return true;
}

Result<bool> StoreParser::read_keys(std::string_view& input) {
  auto counted = read_count(input);
  if (!counted || !*counted) return counted;
  take_whole_keys(input);
  // What is left has come in part, or is to be refused.
  while (items_left_ > 0) {
    auto complete = read_listed_key(input);
    if (!complete || !*complete) return complete;
    has_length_ = false;
    --items_left_;
  }
  return true;
}

// Nearly always a list comes whole, and its keys need no second look.
void StoreParser::take_whole_keys(std::string_view& input) {
  if (has_length_ || partial_size_ > 0) return;
  const KeyList::Taken taken = request_.keys.take(
      input.substr(0, limits_.request_bytes_max - request_bytes_),
      items_left_,
      limits_.key_bytes_max);
  items_left_ -= taken.items;
  request_bytes_ += taken.bytes;
  input.remove_prefix(taken.bytes);
}

Result<bool> StoreParser::read_pairs(std::string_view& input) {
  auto counted = read_count(input);
  if (!counted || !*counted) return counted;
  while (items_left_ > 0) {
    if (!at_pair_value_) {
      auto complete = read_listed_key(input);
      if (!complete || !*complete) return complete;
      has_length_ = false;
      at_pair_value_ = true;
    }
    Value value;
    auto complete = read_value(input, value);
    if (!complete || !*complete) return complete;
    request_.values.push_back(std::move(value));
    has_length_ = false;
    at_pair_value_ = false;
    --items_left_;
  }
  return true;
}

Result<bool> StoreParser::read_listed_key(std::string_view& input) {
  if (!has_length_) {
    auto complete = read_length(input, limits_.key_bytes_max, "key");
    if (!complete || !*complete) return complete;
    request_.keys.open();
  }
  const std::string_view part = input.substr(0, missing_);
  request_.keys.extend(part);
  input.remove_prefix(part.size());
  missing_ -= part.size();
  return missing_ == 0;
}

Result<bool> StoreParser::read_count(std::string_view& input) {
  if (has_count_) return true;
  // MULTI_SET counts in i64; negative is far over the limit as u64.
  std::uint64_t count = 0;
  if (!read_number(input, count)) return false;
  if (count > limits_.list_items_max) {
    return make_error(
        Errc::kLimit, fmt::format("a list of {} items, limit {}", count, limits_.list_items_max));
  }
  has_count_ = true;
  has_length_ = false;
  at_pair_value_ = false;
  items_left_ = count;
  request_.keys.clear();
  request_.values = std::vector<Value>();
  return true;
}

Result<bool> StoreParser::read_length(
    std::string_view& input, std::size_t max, std::string_view what) {
  std::uint64_t length = 0;
  if (!read_number(input, length)) return false;
  if (length > max) {
    return make_error(Errc::kLimit, fmt::format("a {} of {} bytes, limit {}", what, length, max));
  }
  request_bytes_ += sizeof(length) + length;
  if (request_bytes_ > limits_.request_bytes_max) {
    return make_error(
        Errc::kLimit,
        fmt::format(
            "a request of {} bytes or more, limit {}", request_bytes_, limits_.request_bytes_max));
  }
  has_length_ = true;
  missing_ = length;
  return true;
}

template <class Number>
bool StoreParser::read_number(std::string_view& input, Number& into) {
  static_assert(sizeof(Number) <= sizeof(partial_));
  if (partial_size_ == 0 && input.size() >= sizeof(Number)) {
    std::memcpy(&into, input.data(), sizeof(Number));
    input.remove_prefix(sizeof(Number));
    return true;
  }
  const std::string_view part = input.substr(0, sizeof(Number) - partial_size_);
  std::ranges::copy(part, partial_.begin() + static_cast<std::ptrdiff_t>(partial_size_));
  partial_size_ += part.size();
  input.remove_prefix(part.size());
  if (partial_size_ < sizeof(Number)) return false;
  std::memcpy(&into, partial_.data(), sizeof(Number));
  partial_size_ = 0;
  return true;
}

}  // namespace ddprun
