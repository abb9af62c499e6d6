#pragma once

// Python's pickles, as torch.save() writes them for training states, and as Python 2 wrote
// them for numpy's arrays of bytes: protocol 2, plain values and tensors. A pickle is a
// program for a small stack machine, and a malicious one can run anything. This machine knows
// only the calls that make a dict, a size, a tensor or an array, and refuses everything else
// by name. (pickletools documents the opcodes; torch's weights_only unpickler has a wider
// list.)

#include "base/error.hpp"
#include "trainer/core/python_value.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A tensor as a pickle describes it: elements of a storage, whose bytes are elsewhere.
struct StoredTensor {
  std::string_view storage;  // its key; for a numpy array the bytes themselves
  DType dtype = DType::kF32;
  std::size_t storage_bytes = 0;      // as claimed
  std::int64_t offset = 0;            // of the first element, in elements; all numbers are >= 0
  std::vector<std::int64_t> shape;    // as long as strides
  std::vector<std::int64_t> strides;  // in elements
};

/// Yields the elements of a tensor, dense; read_pickle() fails with its error.
using TensorSource = std::function<Result<TensorView>(const StoredTensor&)>;

/// The limits of read_pickle().
struct PickleLimits {
  std::size_t bytes_max = std::size_t{256} << 20U;
  std::size_t values_max = 8'000'000;  // a value shared by two places counts twice
  std::size_t text_bytes_max = std::size_t{256} << 20U;  // in total, counted likewise
  int depth_max = 64;                                    // of nested containers
  std::size_t dimensions_max = 64;
};

/// Runs a pickle. Fails with kCorrupt, naming the opcode and its position, or the global, if the
/// pickle is truncated, inconsistent, or has anything but values and tensors; with kLimit beyond
/// `limits`, also for values that contain themselves.
///
/// Integers beyond 64 bits and dict keys that are neither texts nor whole numbers are refused.
/// Attributes of an OrderedDict are dropped: state_dict() stores versions of modules there.
Result<PyValue> read_pickle(
    std::string_view pickle, const TensorSource& tensors, const PickleLimits& limits = {});

/// The same for pickles of Python 2 with protocol 2: its texts, which may contain any bytes, and
/// numpy's arrays of type uint8, which `arrays` converts, row-major or column-major. Tensors,
/// persistent ids and other types are refused.
Result<PyValue> read_numpy_pickle(
    std::string_view pickle, const TensorSource& arrays, const PickleLimits& limits = {});

/// A pickle, and the tensors that it refers to as the storages "0", "1", ... in order.
struct WrittenPickle {
  std::string text;
  std::vector<std::span<const std::byte>> storages;
};

/// Pickles `value` for torch.load(), also with weights_only. REQUIRES: the bytes of each tensor
/// match its shape and dtype; every text is shorter than 4 GiB.
WrittenPickle write_pickle(const PyValue& value);

}  // namespace ddprun
