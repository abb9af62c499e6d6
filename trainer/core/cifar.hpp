#pragma once

// The binary version of CIFAR-10: records of one label byte and 3072 bytes of pixels, the planes
// red, green and blue of 32 x 32 each. https://www.cs.toronto.edu/~kriz/cifar.html. Also the names
// of the data set's files; cifar_pickle.hpp reads those of the Python version.

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

inline constexpr std::int64_t kCifarSide = 32;
inline constexpr std::int64_t kCifarClasses = 10;
inline constexpr std::size_t kCifarPixelBytes = std::size_t{3} * kCifarSide * kCifarSide;
inline constexpr std::size_t kCifarRecordBytes = 1 + kCifarPixelBytes;

/// The records of one file, a view of its bytes.
struct CifarRecords {
  std::span<const std::uint8_t> bytes;  // (count(), 3073)

  std::int64_t count() const { return static_cast<std::int64_t>(bytes.size() / kCifarRecordBytes); }
  std::uint8_t label(std::int64_t record) const {
    return bytes[static_cast<std::size_t>(record) * kCifarRecordBytes];
  }
  std::span<const std::uint8_t> pixels(std::int64_t record) const {
    return bytes.subspan(
        static_cast<std::size_t>(record) * kCifarRecordBytes + 1, kCifarPixelBytes);
  }
};

/// Fails with kCorrupt if the size is 0 or not a multiple of a record, or a label is above 9.
Result<CifarRecords> parse_cifar(std::span<const std::uint8_t> file);

/// The files of a split. In both versions they hold the same images in the same order.
struct CifarBatches {
  enum class Version : std::uint8_t {
    kBinary,  // data_batch_1.bin, and so on, plain or .gz
    kPython,  // data_batch_1, and so on
  };

  Version version = Version::kBinary;
  std::vector<std::string> names;  // in order; empty: no such files
};

/// Those among `names` that begin with `stem`, "data_batch_" or "test_batch". The binary version is
/// preferred to the Python version, a plain file to its gzipped twin.
CifarBatches choose_cifar_batches(const std::vector<std::string>& names, std::string_view stem);

}  // namespace ddprun
