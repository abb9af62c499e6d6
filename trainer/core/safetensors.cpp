#include "trainer/core/safetensors.hpp"

#include "base/check.hpp"
#include "trainer/core/corrupt.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace ddprun {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;
constexpr char kMetadata[] = "__metadata__";

struct Kind {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<Kind, 12> kKinds = {{
    {.dtype = DType::kF64, .name = "F64", .bytes = 8},
    {.dtype = DType::kI64, .name = "I64", .bytes = 8},
    {.dtype = DType::kF32, .name = "F32", .bytes = 4},
    {.dtype = DType::kI32, .name = "I32", .bytes = 4},
    {.dtype = DType::kF16, .name = "F16", .bytes = 2},
    {.dtype = DType::kBF16, .name = "BF16", .bytes = 2},
    {.dtype = DType::kI16, .name = "I16", .bytes = 2},
    {.dtype = DType::kI8, .name = "I8", .bytes = 1},
    {.dtype = DType::kU8, .name = "U8", .bytes = 1},
    {.dtype = DType::kBool, .name = "BOOL", .bytes = 1},
    {.dtype = DType::kF8E4M3, .name = "F8_E4M3", .bytes = 1},
    {.dtype = DType::kF8E5M2, .name = "F8_E5M2", .bytes = 1},
}};

const Kind& kind_of(DType dtype) {
  const auto found = std::ranges::find(kKinds, dtype, &Kind::dtype);
  DDPRUN_CHECK(found != kKinds.end());
  return *found;
}

Error bad_tensor(std::string_view name, std::string_view why) {
  return corrupt(fmt::format("tensor '{}': {}", name, why));
}

/// The header as JSON. Fails if a name occurs twice: one of the two tensors would be lost.
Result<Json> parse_header(std::string_view text) {
  std::vector<std::set<std::string>> names;
  std::optional<std::string> twice;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      names.resize(static_cast<std::size_t>(depth) + 1);
      names.back().clear();
    }
    if (event == Json::parse_event_t::key) {
      names.resize(static_cast<std::size_t>(depth));  // without those of a list that has ended
      const auto& name = parsed.get_ref<const std::string&>();
      if (!names.back().insert(name).second) twice = name;
    }
    if (event == Json::parse_event_t::object_end) names.resize(static_cast<std::size_t>(depth));
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, watch);
  } catch (const Json::exception& error) {
    return corrupt(fmt::format("the header is not JSON: {}", error.what()));
  }
  if (twice) return corrupt(fmt::format("the header has '{}' twice", *twice));
  if (!header.is_object()) return corrupt("the header is not a JSON object");
  return {boost::system::in_place_value, std::move(header)};  // JSON converts to an Error too
}

Result<std::map<std::string, std::string>> read_metadata(const Json& json) {
  if (!json.is_object()) return corrupt("__metadata__ is not an object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return corrupt(fmt::format("__metadata__ '{}' is not a string", key));
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

Result<DType> read_dtype(std::string_view name, const Json& entry) {
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) return bad_tensor(name, "no dtype");
  const auto& text = dtype->get_ref<const std::string&>();
  const auto found = std::ranges::find(kKinds, std::string_view(text), &Kind::name);
  if (found == kKinds.end()) return bad_tensor(name, fmt::format("unknown dtype '{}'", text));
  return found->dtype;
}

/// A list of at most `count_max` numbers from 0 to 2^63 - 1.
std::optional<std::vector<std::int64_t>> read_numbers(
    const Json& entry, const char* key, std::size_t count_max) {
  const auto list = entry.find(key);
  if (list == entry.end() || !list->is_array() || list->size() > count_max) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const Json& number : *list) {
    if (!number.is_number_unsigned()) return std::nullopt;
    const auto value = number.get<std::uint64_t>();
    if (value > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
    numbers.push_back(static_cast<std::int64_t>(value));
  }
  return numbers;
}

/// Reads one entry of the header and takes its bytes from `data`.
Result<TensorView> read_tensor(
    const std::string& name, const Json& entry, std::span<const std::byte> data, std::size_t dims) {
  if (!entry.is_object()) return bad_tensor(name, "its entry is not an object");
  const auto dtype = read_dtype(name, entry);
  if (!dtype) return dtype.error();
  auto shape = read_numbers(entry, "shape", dims);
  if (!shape) {
    return bad_tensor(name, fmt::format("the shape is not a list of at most {} sizes", dims));
  }
  const auto offsets = read_numbers(entry, "data_offsets", 2);
  if (!offsets || offsets->size() != 2) return bad_tensor(name, "data_offsets are not two offsets");

  const auto begin = static_cast<std::size_t>((*offsets)[0]);
  const auto end = static_cast<std::size_t>((*offsets)[1]);
  if (begin > end) {
    return bad_tensor(name, fmt::format("its data ends at {}, before {}", end, begin));
  }
  if (end > data.size()) {
    return bad_tensor(
        name, fmt::format("its data ends at {}, but there are {} bytes", end, data.size()));
  }
  const auto bytes = size_of_tensor(*dtype, *shape);
  if (!bytes || *bytes != end - begin) {
    return bad_tensor(
        name,
        fmt::format(
            "{} [{}] does not take {} bytes",
            name_of(*dtype),
            fmt::join(*shape, ","),
            end - begin));
  }
  return TensorView{
      .name = name,
      .dtype = *dtype,
      .shape = *std::move(shape),
      .bytes = data.subspan(begin, end - begin)};
}

/// Sorts the tensors by the position of their bytes, which must be all of `data`, each once.
Result<void> order_by_place(std::vector<TensorView>& tensors, std::span<const std::byte> data) {
  std::ranges::sort(tensors, {}, [](const TensorView& tensor) {
    return std::pair(tensor.bytes.data(), tensor.bytes.size());
  });
  std::size_t place = 0;
  for (const TensorView& tensor : tensors) {
    const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data.data());
    if (begin < place) return bad_tensor(tensor.name, "its data overlaps that of another tensor");
    if (begin > place) {
      return bad_tensor(
          tensor.name, fmt::format("the {} bytes before it belong to no tensor", begin - place));
    }
    place += tensor.bytes.size();
  }
  if (place != data.size()) {
    return corrupt(fmt::format("the {} bytes at the end belong to no tensor", data.size() - place));
  }
  return {};
}

}  // namespace

std::size_t size_of(DType dtype) {
  return kind_of(dtype).bytes;
}

std::optional<std::size_t> size_of_tensor(DType dtype, std::span<const std::int64_t> shape) {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t length : shape) {
    if (length < 0) return std::nullopt;
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(length), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

std::vector<std::int64_t> dense_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    // Beside a length of 0 the product may overflow, but then no element is ever accessed.
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(shape[i], 1), &stride)) stride = 1;
  }
  return strides;
}

std::string_view name_of(DType dtype) {
  return kind_of(dtype).name;
}

std::size_t EncodedTensors::size() const {
  std::size_t bytes = head.size();
  for (const auto body : bodies) {
    bytes += body.size();
  }
  return bytes;
}

const TensorView* DecodedTensors::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &TensorView::name);
  return found == tensors.end() ? nullptr : &*found;
}

EncodedTensors encode_safetensors(
    std::vector<TensorView> tensors, const std::map<std::string, std::string>& metadata) {
  std::ranges::sort(tensors, [](const TensorView& left, const TensorView& right) {
    if (size_of(left.dtype) != size_of(right.dtype)) {
      return size_of(left.dtype) > size_of(right.dtype);
    }
    return left.name < right.name;
  });

  EncodedTensors file;
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::set<std::string_view> names = {kMetadata};
  std::size_t place = 0;
  for (const TensorView& tensor : tensors) {
    DDPRUN_CHECK(names.insert(tensor.name).second);
    DDPRUN_CHECK(size_of_tensor(tensor.dtype, tensor.shape) == tensor.bytes.size());
    const std::size_t end = place + tensor.bytes.size();
    auto& entry = header[tensor.name];
    entry["dtype"] = name_of(tensor.dtype);
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {place, end};
    file.bodies.push_back(tensor.bytes);
    place = end;
  }

  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t length = text.size();
  file.head.resize(kLengthBytes);
  std::memcpy(file.head.data(), &length, kLengthBytes);
  file.head += text;
  return file;
}

Result<DecodedTensors> decode_safetensors(
    std::span<const std::byte> file, SafetensorsLimits limits) {
  if (file.size() < kLengthBytes) {
    return corrupt(fmt::format("{} bytes are too few for a safetensors file", file.size()));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  const auto rest = file.subspan(kLengthBytes);
  if (length > rest.size()) {
    return corrupt(
        fmt::format("the header claims {} bytes, but {} follow it", length, rest.size()));
  }
  if (length > limits.header_bytes_max) {
    return make_error(
        Errc::kLimit,
        fmt::format("a header of {} bytes; the limit is {}", length, limits.header_bytes_max));
  }
  const auto head = rest.first(length);
  const auto data = rest.subspan(length);
  const auto header =
      parse_header({reinterpret_cast<const char*>(head.data()), head.size()});  // NOLINT
  if (!header) return header.error();

  DecodedTensors decoded;
  for (const auto& [name, entry] : header->items()) {
    if (name == kMetadata) {
      auto metadata = read_metadata(entry);
      if (!metadata) return metadata.error();
      decoded.metadata = *std::move(metadata);
      continue;
    }
    auto tensor = read_tensor(name, entry, data, limits.dimensions_max);
    if (!tensor) return tensor.error();
    decoded.tensors.push_back(*std::move(tensor));
  }
  auto const whole = order_by_place(decoded.tensors, data);
  if (!whole) return whole.error();
  return decoded;
}

}  // namespace ddprun
