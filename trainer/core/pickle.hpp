#pragma once

// Python's pickles, as far as torch.save() makes them of training states, and as Python 2 made them
// of numpy's arrays of bytes: protocol 2, plain values and tensors. A pickle is a program for a
// small machine with a stack, and one in the wrong hands runs anything; this machine knows no call
// but those that make a dict, a size, a tensor or an array, and whatever else it is asked for it
// refuses by name. (pickletools documents the opcodes; torch's weights_only unpickler has a wider
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

/// A tensor as a pickle tells of it: elements of a storage, whose bytes lie elsewhere.
struct StoredTensor {
  std::string_view storage;  // its key; of an array of numpy's the bytes themselves
  DType dtype = DType::kF32;
  std::size_t storage_bytes = 0;      // as claimed
  std::int64_t offset = 0;            // of the first element, in elements; all numbers are >= 0
  std::vector<std::int64_t> shape;    // as long as strides
  std::vector<std::int64_t> strides;  // in elements
};

/// Yields the elements of a tensor, dense; what it fails with, read_pickle() does.
using TensorSource = std::function<Result<TensorView>(const StoredTensor&)>;

/// What read_pickle accepts at most.
struct PickleLimits {
  std::size_t bytes_max = std::size_t{256} << 20U;
  std::size_t values_max = 8'000'000;  // what a value shared by two places has counts twice
  std::size_t text_bytes_max = std::size_t{256} << 20U;  // in all, counted likewise
  int depth_max = 64;                                    // of containers within each other
  std::size_t dimensions_max = 64;
};

/// Runs a pickle. Fails with kCorrupt, naming the opcode and its place, or the global, where the
/// pickle is cut off, contradicts itself or wants anything but values and tensors; with kLimit
/// beyond `limits`, which values that contain themselves exceed as well.
///
/// Integers beyond 64 bits and keys of dicts that are neither text nor whole numbers are refused.
/// Attributes of an OrderedDict are dropped: state_dict() keeps versions of modules there.
Result<PyValue> read_pickle(
    std::string_view pickle, const TensorSource& tensors, const PickleLimits& limits = {});

/// The same for what Python 2 pickled with protocol 2: its texts, which may hold any bytes, and
/// numpy's arrays of type uint8, each of which `arrays` is asked for, row-major or column-major.
/// There are no tensors, no persistent ids and no other types.
Result<PyValue> read_numpy_pickle(
    std::string_view pickle, const TensorSource& arrays, const PickleLimits& limits = {});

/// A pickle, and the tensors that it names as the storages "0", "1", ... in order.
struct WrittenPickle {
  std::string text;
  std::vector<std::span<const std::byte>> storages;
};

/// Pickles `value` for torch.load(), with weights_only too. REQUIRES: the bytes of each tensor are
/// as long as its shape and dtype say; no text takes 4 GiB.
WrittenPickle write_pickle(const PyValue& value);

}  // namespace ddprun
