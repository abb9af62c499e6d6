#include "trainer/core/cifar.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun {
namespace {

bool is_binary_batch(std::string_view name) {
  return name.ends_with(".bin") || name.ends_with(".bin.gz");
}

/// Whether the rest after the stem is a number or empty.
bool is_number(std::string_view rest) {
  return std::ranges::all_of(rest, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<CifarRecords> parse_cifar(std::span<const std::uint8_t> file) {
  if (file.empty() || file.size() % kCifarRecordBytes != 0) {
    return make_error(
        Errc::kCorrupt,
        fmt::format(
            "{} bytes are not a multiple of the record size {}", file.size(), kCifarRecordBytes));
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

CifarBatches choose_cifar_batches(const std::vector<std::string>& names, std::string_view stem) {
  std::vector<std::string> binary;
  std::vector<std::string> pickled;
  for (const std::string& name : names) {
    if (!name.starts_with(stem)) continue;
    if (is_binary_batch(name)) binary.push_back(name);
    if (is_number(std::string_view(name).substr(stem.size()))) pickled.push_back(name);
  }
  const bool is_binary = !binary.empty();
  CifarBatches batches{
      .version = is_binary ? CifarBatches::Version::kBinary : CifarBatches::Version::kPython,
      .names = std::move(is_binary ? binary : pickled)};
  std::ranges::sort(batches.names);
  std::erase_if(batches.names, [sorted = batches.names](const std::string& name) {
    constexpr std::string_view kGzipped = ".gz";
    return name.ends_with(kGzipped) &&
           std::ranges::binary_search(sorted, name.substr(0, name.size() - kGzipped.size()));
  });
  return batches;
}

}  // namespace ddprun
