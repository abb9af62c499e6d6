#pragma once

// The Python version of CIFAR-10: files pickled by Python 2, each a dict of "labels", a list of
// numbers, and "data", an array of bytes. https://www.cs.toronto.edu/~kriz/cifar.html

#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The images of one file.
struct CifarBatch {
  std::vector<std::uint8_t> labels;  // (count), 0 to 9
  std::vector<std::uint8_t> pixels;  // (count, 3072): the planes red, green, blue, as in a record
};

/// Reads a data_batch_N or test_batch. Fails with kCorrupt if the pickle is truncated or damaged,
/// has anything but texts, numbers, lists, dicts and one array (it is named), unequal numbers of
/// labels and images, or a label above 9; with kLimit if it is larger than any such file.
Result<CifarBatch> parse_cifar_pickle(std::string_view file);

/// The names of the classes in a batches.meta, its "label_names". Fails as above.
Result<std::vector<std::string>> parse_cifar_names(std::string_view file);

}  // namespace ddprun
