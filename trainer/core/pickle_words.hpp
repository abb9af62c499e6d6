#pragma once

// Opcodes and globals that the reader and the writer of pickles share.

#include "trainer/core/safetensors.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace ddprun::pickle_words {

inline constexpr std::uint8_t kProtocol = 2;

enum class Op : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinString = 'T',       // a text of Python 2, which is bytes
  kShortBinString = 'U',  // likewise
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kEmptyDict = '}',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kEmptyList = ']',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kBinFloat = 'G',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
};

inline constexpr std::string_view kOrderedDict = "collections OrderedDict";
inline constexpr std::string_view kRebuildTensor = "torch._utils _rebuild_tensor_v2";
inline constexpr std::string_view kRebuildTensorOfType = "torch._utils _rebuild_tensor_v3";
inline constexpr std::string_view kRebuildParameter = "torch._utils _rebuild_parameter";
inline constexpr std::string_view kSize = "torch Size";
inline constexpr std::string_view kUntypedStorage = "torch.storage UntypedStorage";
inline constexpr std::string_view kReconstruct = "numpy.core.multiarray _reconstruct";
inline constexpr std::string_view kArray = "numpy ndarray";
inline constexpr std::string_view kArrayType = "numpy dtype";
inline constexpr std::string_view kStorage = "storage";  // first item of a persistent id

/// The class of a storage gives the type of its elements; newer types have an untyped storage, and
/// the tensor has the type.
struct TypeName {
  DType dtype;
  std::string_view storage;  // empty: untyped
  std::string_view name;
};
inline constexpr std::array<TypeName, 12> kTypes = {{
    {.dtype = DType::kF64, .storage = "torch DoubleStorage", .name = "torch float64"},
    {.dtype = DType::kI64, .storage = "torch LongStorage", .name = "torch int64"},
    {.dtype = DType::kF32, .storage = "torch FloatStorage", .name = "torch float32"},
    {.dtype = DType::kI32, .storage = "torch IntStorage", .name = "torch int32"},
    {.dtype = DType::kF16, .storage = "torch HalfStorage", .name = "torch float16"},
    {.dtype = DType::kBF16, .storage = "torch BFloat16Storage", .name = "torch bfloat16"},
    {.dtype = DType::kI16, .storage = "torch ShortStorage", .name = "torch int16"},
    {.dtype = DType::kI8, .storage = "torch CharStorage", .name = "torch int8"},
    {.dtype = DType::kU8, .storage = "torch ByteStorage", .name = "torch uint8"},
    {.dtype = DType::kBool, .storage = "torch BoolStorage", .name = "torch bool"},
    {.dtype = DType::kF8E4M3, .storage = "", .name = "torch float8_e4m3fn"},
    {.dtype = DType::kF8E5M2, .storage = "", .name = "torch float8_e5m2"},
}};

/// torch's types that our format does not have: refused under their usual names.
struct OtherType {
  std::string_view storage;  // empty: untyped
  std::string_view name;
};
inline constexpr std::array<OtherType, 10> kOtherTypes = {{
    {.storage = "", .name = "torch uint16"},
    {.storage = "", .name = "torch uint32"},
    {.storage = "", .name = "torch uint64"},
    {.storage = "", .name = "torch complex32"},
    {.storage = "torch ComplexFloatStorage", .name = "torch complex64"},
    {.storage = "torch ComplexDoubleStorage", .name = "torch complex128"},
    {.storage = "", .name = "torch float8_e4m3fnuz"},
    {.storage = "", .name = "torch float8_e5m2fnuz"},
    {.storage = "", .name = "torch float8_e8m0fnu"},
    {.storage = "", .name = "torch float4_e2m1fn_x2"},
}};

}  // namespace ddprun::pickle_words
