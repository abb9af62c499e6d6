#pragma once

// The safetensors format of Hugging Face: bytes in, values out. A file is a length (u64, little
// endian), a JSON header of that length with the position of each tensor, and the tensors' bytes.
// Nothing in it can be executed, and every value is checked before it is used.

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The element types of the format, the widest first.
enum class DType : std::uint8_t {
  kF64,
  kI64,
  kF32,
  kI32,
  kF16,
  kBF16,
  kI16,
  kI8,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2,
};

/// Bytes of one element.
std::size_t size_of(DType dtype);

/// Bytes of a dense tensor; none if a length is negative or the product does not fit in a size.
std::optional<std::size_t> size_of_tensor(DType dtype, std::span<const std::int64_t> shape);

/// The strides of a row-major tensor: the number of elements between neighbours in each dimension.
/// A dimension of length 0 counts as 1, as in torch. REQUIRES: size_of_tensor() yields a value.
std::vector<std::int64_t> dense_strides(std::span<const std::int64_t> shape);

/// The name in the format: "F32".
std::string_view name_of(DType dtype);

/// A tensor that does not own its bytes: dense, row-major, little-endian.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;   // empty: a scalar
  std::span<const std::byte> bytes;  // length given by shape and dtype
};

/// A file in pieces, so that no tensor is copied to write it: `head`, then the bodies in order.
struct EncodedTensors {
  std::string
      head;  // the length and the header, padded so that the bodies begin at a multiple of 8
  std::vector<std::span<const std::byte>> bodies;

  std::size_t size() const;
};

/// The content of a file. The views point into the decoded bytes, in the same order. In our files
/// each view begins at a multiple of its element size; in other files it may not.
struct DecodedTensors {
  std::vector<TensorView> tensors;
  std::map<std::string, std::string> metadata;

  /// Null if there is none.
  const TensorView* find(std::string_view name) const;
};

/// The limits of decode_safetensors(). The format's own limit for a header is 100 MB.
struct SafetensorsLimits {
  std::size_t header_bytes_max = 100'000'000;
  std::size_t dimensions_max = 64;
};

/// Orders tensors by descending element size, then by name. REQUIRES: names are unique and none is
/// "__metadata__"; `bytes` of each match its shape and dtype.
EncodedTensors encode_safetensors(
    std::vector<TensorView> tensors, const std::map<std::string, std::string>& metadata);

/// Reads a whole file. Fails with kCorrupt, naming the tensor and the problem, if the file is
/// truncated, has overlaps, gaps or trailing bytes, or is inconsistent; with kLimit beyond
/// `limits`. Allocates nothing whose size is only claimed by the file.
Result<DecodedTensors> decode_safetensors(
    std::span<const std::byte> file, SafetensorsLimits limits = {});

}  // namespace ddprun
