#include "trainer/core/protobuf.hpp"

#include "base/check.hpp"

#include <bit>

namespace ddprun {
namespace {

constexpr unsigned kByteBits = 8;

}  // namespace

void append_little_endian(std::string& text, std::uint64_t value, std::size_t bytes) {
  constexpr std::uint64_t kByte = 0xff;
  DDPRUN_CHECK(bytes <= sizeof(value));
  for (std::size_t i = 0; i < bytes; ++i) {
    text += static_cast<char>(value & kByte);
    value >>= kByteBits;
  }
}

ProtobufMessage& ProtobufMessage::add_int(int field, std::int64_t value) {
  add_tag(field, Wire::kVarint);
  add_varint(static_cast<std::uint64_t>(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::add_double(int field, double value) {
  add_tag(field, Wire::kEightBytes);
  append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value), sizeof(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::add_float(int field, float value) {
  add_tag(field, Wire::kFourBytes);
  append_little_endian(bytes_, std::bit_cast<std::uint32_t>(value), sizeof(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::add_text(int field, std::string_view text) {
  add_tag(field, Wire::kLength);
  add_varint(text.size());
  bytes_ += text;
  return *this;
}

ProtobufMessage& ProtobufMessage::add_message(int field, const ProtobufMessage& message) {
  return add_text(field, message.bytes());
}

void ProtobufMessage::add_tag(int field, Wire wire) {
  constexpr int kFieldsEnd = 1 << 29;
  constexpr unsigned kWireBits = 3;
  DDPRUN_CHECK(field >= 1 && field < kFieldsEnd);
  add_varint((static_cast<std::uint64_t>(field) << kWireBits) | static_cast<std::uint64_t>(wire));
}

void ProtobufMessage::add_varint(std::uint64_t value) {
  constexpr std::uint64_t kMore = 0x80;
  constexpr unsigned kGroupBits = 7;
  while (value >= kMore) {
    bytes_ += static_cast<char>((value & (kMore - 1)) | kMore);
    value >>= kGroupBits;
  }
  bytes_ += static_cast<char>(value);
}

}  // namespace ddprun
