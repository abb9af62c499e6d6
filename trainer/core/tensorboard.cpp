#include "trainer/core/tensorboard.hpp"

#include "trainer/core/crc32.hpp"
#include "trainer/core/protobuf.hpp"

#include <fmt/format.h>

#include <bit>

namespace ddprun {
namespace {

// Field numbers of TensorFlow's event.proto and summary.proto.
constexpr int kWallTime = 1;     // of Event
constexpr int kStep = 2;         // of Event
constexpr int kFileVersion = 3;  // of Event
constexpr int kSummary = 5;      // of Event
constexpr int kValue = 1;        // of Summary
constexpr int kTag = 1;          // of Value
constexpr int kSimpleValue = 2;  // of Value

std::string record(const ProtobufMessage& event) {
  const std::string& data = event.bytes();
  std::string framed;
  append_little_endian(framed, data.size(), sizeof(std::uint64_t));
  append_little_endian(framed, masked_crc32c(framed), sizeof(std::uint32_t));
  framed += data;
  append_little_endian(framed, masked_crc32c(data), sizeof(std::uint32_t));
  return framed;
}

}  // namespace

std::string tensorboard_file_name(
    std::int64_t time_s, std::string_view host, std::int64_t pid, int n) {
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}", time_s, host, pid, n);
}

std::string tensorboard_version_record(double time_s) {
  ProtobufMessage event;
  event.add_double(kWallTime, time_s).add_text(kFileVersion, "brain.Event:2");
  return record(event);
}

std::string tensorboard_record(double time_s, std::int64_t step, std::span<const Scalar> scalars) {
  ProtobufMessage summary;
  for (const Scalar& scalar : scalars) {
    ProtobufMessage value;
    value.add_text(kTag, scalar.tag).add_float(kSimpleValue, static_cast<float>(scalar.value));
    summary.add_message(kValue, value);
  }
  ProtobufMessage event;
  event.add_double(kWallTime, time_s).add_int(kStep, step).add_message(kSummary, summary);
  return record(event);
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  constexpr std::uint32_t kDelta = 0xa282'ead8;
  constexpr int kTurn = 15;
  return std::rotr(crc32c(bytes), kTurn) + kDelta;
}

}  // namespace ddprun
