#pragma once

// TensorBoard's event file, a sequence of records
//
//   u64 length | u32 masked crc32c of the length | data | u32 masked crc32c of the data
//
// (TensorFlow's TFRecord, little-endian), each with one protobuf message Event. A file truncated
// within a record is read up to there, so records may be appended while it is read.

#include "trainer/core/scalars.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

/// "events.out.tfevents.<seconds>.<host>.<pid>.<n>"; TensorBoard reads every file of a directory
/// with "tfevents" in its name.
std::string tensorboard_file_name(
    std::int64_t time_s, std::string_view host, std::int64_t pid, int n);

/// The first record of a file: the version of the format. `time_s` is wall-clock time.
std::string tensorboard_version_record(double time_s);

/// One record with the points at `step`. Values are rounded to floats, as the format requires.
std::string tensorboard_record(double time_s, std::int64_t step, std::span<const Scalar> scalars);

/// TFRecord's masked CRC: crc32c rotated right by 15, plus a282ead8.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace ddprun
