#include "trainer/core/cifar.hpp"

#include <fmt/format.h>

namespace ddprun {

Result<CifarRecords> parse_cifar(std::span<const std::uint8_t> file) {
  if (file.empty() || file.size() % kCifarRecordBytes != 0) {
    return make_error(
        Errc::kCorrupt,
        fmt::format("{} bytes are no whole records of {}", file.size(), kCifarRecordBytes));
  }
  const CifarRecords records{.bytes = file};
  for (std::int64_t record = 0; record < records.count(); ++record) {
    if (records.label(record) < kCifarClasses) continue;
    return make_error(
        Errc::kCorrupt,
        fmt::format(
            "label {} of record {}: the classes are 0 to {}",
            records.label(record),
            record,
            kCifarClasses - 1));
  }
  return records;
}

}  // namespace ddprun
