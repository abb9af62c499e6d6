#pragma once

#include "base/error.hpp"
#include "trainer/data/image.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

enum class DataSplit : std::uint8_t { kTrain, kTest };

/// Labelled images before any transform. All functions may be called from several threads at once.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  ImageSource(const ImageSource&) = delete;
  ImageSource& operator=(const ImageSource&) = delete;

  /// The number of samples, at least 1.
  virtual std::int64_t size() const = 0;

  /// The names of the classes, by label; numbers if the data has no names.
  virtual const std::vector<std::string>& classes() const = 0;

  /// The class of a sample, in 0..classes().size()-1. REQUIRES: 0 <= sample < size().
  virtual std::int64_t label(std::int64_t sample) const = 0;

  /// The pixels of a sample. Fails with kNotFound, kIo, kCorrupt or kLimit, naming the file.
  /// REQUIRES: 0 <= sample < size().
  virtual Result<Image> read(std::int64_t sample) const = 0;

 protected:
  ImageSource() = default;
};

/// "0", "1", … for data whose classes have no names.
std::vector<std::string> numbered_classes(std::int64_t count);

}  // namespace ddprun
