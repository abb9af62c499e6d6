#pragma once

// Protocol buffer messages, written field by field; nothing is read. Two file formats consist of
// such messages with a handful of fields: a library with a compiler would be larger than this code.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// Appends the `bytes` low bytes of `value`, the lowest first. REQUIRES: bytes <= 8.
void append_little_endian(std::string& text, std::uint64_t value, std::size_t bytes);

/// A message under construction (protobuf.dev, "Encoding"). Fields are in the order of the calls,
/// and are written even if they have the default value. REQUIRES: 1 <= field < 2^29, everywhere.
class ProtobufMessage {
 public:
  ProtobufMessage& add_int(int field, std::int64_t value);
  ProtobufMessage& add_double(int field, double value);
  ProtobufMessage& add_float(int field, float value);
  /// For string and bytes fields.
  ProtobufMessage& add_text(int field, std::string_view text);
  ProtobufMessage& add_message(int field, const ProtobufMessage& message);

  const std::string& bytes() const { return bytes_; }

 private:
  enum class Wire : std::uint8_t { kVarint = 0, kEightBytes = 1, kLength = 2, kFourBytes = 5 };

  void add_tag(int field, Wire wire);
  void add_varint(std::uint64_t value);

  std::string bytes_;
};

}  // namespace ddprun
