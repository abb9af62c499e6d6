#include "trainer/core/idx.hpp"

#include "trainer/core/corrupt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace ddprun {
namespace {

constexpr std::uint32_t kImagesMagic = 0x00000803;
constexpr std::uint32_t kLabelsMagic = 0x00000801;
constexpr std::size_t kWordBytes = 4;

std::uint32_t word_at(std::span<const std::byte> file, std::size_t index) {
  std::uint32_t word = 0;
  for (const std::byte byte : file.subspan(index * kWordBytes, kWordBytes)) {
    word = (word << 8U) | std::to_integer<std::uint32_t>(byte);
  }
  return word;
}

std::string_view likely_kind(std::uint32_t magic) {
  if (magic == kImagesMagic) return "; these are images";
  if (magic == kLabelsMagic) return "; these are labels";
  if (magic >> 16U == 0x1f8b) return "; this is gzip data, whose file name must end in .gz";
  return "";
}

/// Checks the first word and that the header has `words` words.
Result<void> check_header(
    std::span<const std::byte> file, std::uint32_t expected, std::size_t words) {
  if (file.size() < words * kWordBytes) {
    return corrupt(fmt::format(
        "{} bytes are too few for an IDX header of {}", file.size(), words * kWordBytes));
  }
  const std::uint32_t magic = word_at(file, 0);
  if (magic == expected) return {};
  return corrupt(fmt::format(
      "magic number 0x{:08x} where 0x{:08x} was expected{}", magic, expected, likely_kind(magic)));
}

Result<void> check_range(std::int64_t value, std::int64_t max, std::string_view what) {
  if (value >= 1 && value <= max) return {};
  return corrupt(fmt::format("{} is {}, expected 1 to {}", what, value, max));
}

Result<void> check_size(std::size_t size, std::int64_t expected) {
  const auto has = static_cast<std::int64_t>(size);
  if (has == expected) return {};
  return corrupt(fmt::format(
      "{}: expected {} bytes from the header, the file has {}",
      has < expected ? "truncated" : "trailing bytes",
      expected,
      has));
}

}  // namespace

Result<IdxImages> parse_idx_images(std::span<const std::byte> file) {
  constexpr std::size_t kHeaderWords = 4;
  auto good = check_header(file, kImagesMagic, kHeaderWords);
  if (!good) return good.error();
  IdxImages images;
  images.count = word_at(file, 1);
  images.rows = word_at(file, 2);
  images.columns = word_at(file, 3);
  good = check_range(images.count, kIdxSamplesMax, "the number of images");
  if (good) good = check_range(images.rows, kIdxSideMax, "the number of rows");
  if (good) good = check_range(images.columns, kIdxSideMax, "the number of columns");
  if (!good) return good.error();

  constexpr std::int64_t kHeaderBytes = kHeaderWords * kWordBytes;
  good = check_size(file.size(), kHeaderBytes + images.count * images.rows * images.columns);
  if (!good) return good.error();
  images.pixels = file.subspan(kHeaderBytes);
  return images;
}

Result<IdxLabels> parse_idx_labels(std::span<const std::byte> file, int classes) {
  constexpr std::size_t kHeaderWords = 2;
  auto good = check_header(file, kLabelsMagic, kHeaderWords);
  if (!good) return good.error();
  IdxLabels labels;
  labels.count = word_at(file, 1);
  good = check_range(labels.count, kIdxSamplesMax, "the number of labels");
  if (!good) return good.error();

  constexpr std::int64_t kHeaderBytes = kHeaderWords * kWordBytes;
  good = check_size(file.size(), kHeaderBytes + labels.count);
  if (!good) return good.error();
  labels.classes = file.subspan(kHeaderBytes);

  const auto wrong = std::ranges::find_if(labels.classes, [classes](std::byte label) {
    return std::to_integer<int>(label) >= classes;
  });
  if (wrong == labels.classes.end()) return labels;
  return corrupt(fmt::format(
      "label {} of sample {}: the classes are 0 to {}",
      std::to_integer<int>(*wrong),
      wrong - labels.classes.begin(),
      classes - 1));
}

}  // namespace ddprun
