#include "trainer/core/mat_file.hpp"

#include "trainer/core/corrupt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>

#include <zlib.h>

namespace ddprun {
namespace {

constexpr std::size_t kHeaderBytes = 128;
constexpr std::size_t kTagBytes = 8;
constexpr std::size_t kInflatedBytesMax = std::size_t{64} << 20U;
constexpr std::size_t kValuesMax = 1'000'000;  // of a table; ImageNet's has 15,000
constexpr std::size_t kFieldsMax = 1000;

/// The type of a data element.
enum class Type : std::uint32_t {
  kInt8 = 1,
  kUint8 = 2,
  kInt16 = 3,
  kUint16 = 4,
  kInt32 = 5,
  kUint32 = 6,
  kSingle = 7,
  kDouble = 9,
  kInt64 = 12,
  kUint64 = 13,
  kMatrix = 14,
  kCompressed = 15,
  kUtf8 = 16,
  kUtf16 = 17,
};

// The class of an array; classes from kDoubleClass to kUint64Class are numbers.
constexpr std::uint8_t kStructClass = 2;
constexpr std::uint8_t kCharClass = 4;
constexpr std::uint8_t kDoubleClass = 6;
constexpr std::uint8_t kUint64Class = 15;

/// Little-endian. REQUIRES: bytes.size() <= 8.
std::uint64_t number_of(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8U | static_cast<std::uint8_t>(bytes[i]);
  }
  return value;
}

struct Element {
  Type type = Type::kInt8;
  std::string_view data;
};

/// A sequence of data elements.
class Elements {
 public:
  explicit Elements(std::string_view bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }

  Result<Element> next() {
    if (rest_.size() < kTagBytes) return corrupt("it is truncated");
    const std::uint64_t head = number_of(rest_.substr(0, 4));
    // A small element has its size in the upper half of the type, and its data in the same 8 bytes.
    const std::uint64_t small_bytes = head >> 16U;
    if (small_bytes > 4) return corrupt("a small element has more than 4 bytes");
    if (small_bytes > 0) {
      const Element small{
          .type = static_cast<Type>(head & 0xffffU), .data = rest_.substr(4, small_bytes)};
      rest_.remove_prefix(kTagBytes);
      return small;
    }
    const std::uint64_t bytes = number_of(rest_.substr(4, 4));
    if (bytes > rest_.size() - kTagBytes) return corrupt("it is truncated");
    const Element element{.type = static_cast<Type>(head), .data = rest_.substr(kTagBytes, bytes)};
    const bool is_padded = element.type != Type::kCompressed;
    const std::uint64_t padding = is_padded ? (kTagBytes - bytes % kTagBytes) % kTagBytes : 0;
    rest_.remove_prefix(std::min<std::uint64_t>(kTagBytes + bytes + padding, rest_.size()));
    return element;
  }

 private:
  std::string_view rest_;
};

/// An array: the content of its first three elements, and the remaining elements.
struct Matrix {
  std::uint8_t array_class = 0;
  std::uint64_t count = 0;  // of its items
  std::string_view name;
  Elements rest;
};

Result<Matrix> open_matrix(std::string_view data) {
  Elements elements(data);
  const auto flags = elements.next();
  if (!flags) return flags.error();
  const auto dimensions = elements.next();
  if (!dimensions) return dimensions.error();
  const auto name = elements.next();
  if (!name) return name.error();
  constexpr std::size_t kLengthBytes = 4;
  if (flags->data.empty() || dimensions->data.size() < 2 * kLengthBytes) {
    return corrupt("an array has no class or no dimensions");
  }
  Matrix matrix{
      .array_class = static_cast<std::uint8_t>(flags->data[0]),
      .count = 1,
      .name = name->data,
      .rest = elements};
  for (std::size_t at = 0; at + kLengthBytes <= dimensions->data.size(); at += kLengthBytes) {
    const std::uint64_t length = number_of(dimensions->data.substr(at, kLengthBytes));
    if (__builtin_mul_overflow(matrix.count, length, &matrix.count)) {
      return corrupt("the dimensions of an array are impossible");
    }
  }
  return matrix;
}

/// The integer in `bytes`, sign-extended.
double signed_number_of(std::string_view bytes) {
  const std::size_t shift = 64 - 8 * bytes.size();
  return static_cast<double>(static_cast<std::int64_t>(number_of(bytes) << shift) >> shift);
}

Result<double> only_number_of(const Element& element) {
  const auto first = [&element](std::size_t bytes) -> std::optional<std::string_view> {
    return element.data.size() < bytes ? std::nullopt
                                       : std::optional(element.data.substr(0, bytes));
  };
  const auto with = [](std::optional<std::string_view> bytes, auto read) -> Result<double> {
    if (!bytes) return corrupt("a number is truncated");
    return static_cast<double>(read(*bytes));
  };
  switch (element.type) {
    case Type::kInt8:
      return with(first(1), signed_number_of);
    case Type::kInt16:
      return with(first(2), signed_number_of);
    case Type::kInt32:
      return with(first(4), signed_number_of);
    case Type::kInt64:
      return with(first(8), signed_number_of);
    case Type::kUint8:
      return with(first(1), number_of);
    case Type::kUint16:
      return with(first(2), number_of);
    case Type::kUint32:
      return with(first(4), number_of);
    case Type::kUint64:
      return with(first(8), number_of);
    case Type::kSingle:
      return with(first(4), [](std::string_view bytes) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(number_of(bytes)));
      });
    case Type::kDouble:
      return with(
          first(8), [](std::string_view bytes) { return std::bit_cast<double>(number_of(bytes)); });
    case Type::kMatrix:
    case Type::kCompressed:
    case Type::kUtf8:
    case Type::kUtf16:
      break;
  }
  return corrupt(fmt::format("a number of type {}", static_cast<std::uint32_t>(element.type)));
}

Result<std::string> text_of(const Element& element) {
  const bool is_wide = element.type == Type::kUint16 || element.type == Type::kUtf16;
  const bool is_narrow =
      element.type == Type::kUint8 || element.type == Type::kInt8 || element.type == Type::kUtf8;
  if (!is_wide && !is_narrow) {
    return corrupt(fmt::format("a text of type {}", static_cast<std::uint32_t>(element.type)));
  }
  constexpr std::uint64_t kAsciiEnd = 128;
  const std::size_t unit = is_wide ? 2 : 1;
  std::string text;
  for (std::size_t at = 0; at + unit <= element.data.size(); at += unit) {
    const std::uint64_t letter = number_of(element.data.substr(at, unit));
    text += letter < kAsciiEnd ? static_cast<char>(letter) : '?';
  }
  return text;
}

Result<MatValue> value_of(const Element& field) {
  if (field.type != Type::kMatrix) return corrupt("a field of a struct is not an array");
  if (field.data.empty()) return MatValue();
  auto matrix = open_matrix(field.data);
  if (!matrix) return matrix.error();
  const bool is_text = matrix->array_class == kCharClass;
  const bool is_number = matrix->array_class >= kDoubleClass &&
                         matrix->array_class <= kUint64Class && matrix->count == 1;
  if (!is_text && !is_number) return MatValue();
  if (matrix->count == 0) return MatValue(std::string());
  const auto content = matrix->rest.next();
  if (!content) return content.error();
  if (is_text) {
    auto text = text_of(*content);
    if (!text) return text.error();
    return MatValue(*std::move(text));
  }
  const auto number = only_number_of(*content);
  if (!number) return number.error();
  return MatValue(*number);
}

/// The field names, all stored with the same length and padded with zeros.
Result<std::vector<std::string>> fields_of(Elements& elements) {
  const auto length = elements.next();
  if (!length) return length.error();
  const auto names = elements.next();
  if (!names) return names.error();
  const std::uint64_t bytes = number_of(length->data.substr(0, 4));
  if (bytes == 0 || names->data.size() % bytes != 0 || names->data.size() / bytes > kFieldsMax) {
    return corrupt("the names of a struct's fields are damaged");
  }
  std::vector<std::string> fields;
  for (std::size_t at = 0; at < names->data.size(); at += bytes) {
    const std::string_view name = names->data.substr(at, bytes);
    fields.emplace_back(name.substr(0, name.find('\0')));
  }
  return fields;
}

Result<MatTable> table_of(Matrix matrix) {
  if (matrix.array_class != kStructClass) {
    return corrupt(fmt::format("'{}' is not an array of structs", matrix.name));
  }
  auto fields = fields_of(matrix.rest);
  if (!fields) return fields.error();
  if (fields->empty()) return corrupt(fmt::format("'{}' has no fields", matrix.name));
  if (matrix.count > kValuesMax / fields->size()) {
    return make_error(
        Errc::kLimit,
        fmt::format(
            "'{}' has {} structs of {} fields; the limit is {} values",
            matrix.name,
            matrix.count,
            fields->size(),
            kValuesMax));
  }
  MatTable table{.fields = *std::move(fields), .rows = {}};
  for (std::uint64_t row = 0; row < matrix.count; ++row) {
    std::vector<MatValue>& values = table.rows.emplace_back();
    for (std::size_t field = 0; field < table.fields.size(); ++field) {
      const auto element = matrix.rest.next();
      if (!element) return element.error();
      auto value = value_of(*element);
      if (!value) return value.error();
      values.push_back(*std::move(value));
    }
  }
  return table;
}

struct EndInflate {
  void operator()(z_stream* stream) const { ::inflateEnd(stream); }
};

/// At most `room` bytes, which it takes from there.
Result<std::string> inflated(std::string_view packed, std::size_t& room) {
  z_stream stream{};
  if (::inflateInit(&stream) != Z_OK) return make_errno_error(ENOMEM, "zlib");
  const std::unique_ptr<z_stream, EndInflate> ended(&stream);
  // zlib does not write to its input, but older interfaces of it are not const-correct.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  constexpr std::size_t kChunkBytes = std::size_t{1} << 20U;
  std::string content;
  for (int code = Z_OK; code != Z_STREAM_END;) {
    if (content.size() >= room) {
      return make_error(
          Errc::kLimit,
          fmt::format("it is larger than {} bytes after decompression", kInflatedBytesMax));
    }
    const std::size_t had = content.size();
    content.resize(had + kChunkBytes);
    stream.next_out = reinterpret_cast<Bytef*>(content.data() + had);
    stream.avail_out = static_cast<uInt>(kChunkBytes);
    code = ::inflate(&stream, Z_NO_FLUSH);
    content.resize(had + kChunkBytes - stream.avail_out);
    const bool goes_on = code == Z_OK && content.size() > had;
    if (code != Z_STREAM_END && !goes_on)
      return corrupt("its compressed data is damaged or truncated");
  }
  room -= std::min(room, content.size());
  return content;
}

/// The table, if `element` is the variable of this name.
Result<std::optional<MatTable>> find_in(const Element& element, std::string_view variable) {
  if (element.type != Type::kMatrix) return std::optional<MatTable>();
  auto matrix = open_matrix(element.data);
  if (!matrix) return matrix.error();
  if (matrix->name != variable) return std::optional<MatTable>();
  auto table = table_of(*std::move(matrix));
  if (!table) return table.error();
  return std::optional(*std::move(table));
}

Result<std::optional<MatTable>> find_in_packed(
    const Element& packed, std::string_view variable, std::size_t& room) {
  const auto content = inflated(packed.data, room);
  if (!content) return content.error();
  const auto element = Elements(*content).next();
  if (!element) return element.error();
  return find_in(*element, variable);
}

}  // namespace

std::optional<std::size_t> MatTable::column(std::string_view field) const {
  const auto found = std::ranges::find(fields, field);
  if (found == fields.end()) return std::nullopt;
  return static_cast<std::size_t>(found - fields.begin());
}

Result<MatTable> read_mat_table(std::string_view file, std::string_view variable) {
  if (file.size() > kInflatedBytesMax) {
    return make_error(
        Errc::kLimit, fmt::format("{} bytes; the limit is {}", file.size(), kInflatedBytesMax));
  }
  // After a text and the offset of subsystem data: the version, 1.0, and the byte order.
  constexpr std::string_view kVersionAndOrder("\0\1IM", 4);
  if (file.size() < kHeaderBytes || !file.substr(0, kHeaderBytes).ends_with(kVersionAndOrder)) {
    return corrupt("it is not a little-endian MATLAB file of level 5");
  }
  Elements elements(file.substr(kHeaderBytes));
  std::size_t room = kInflatedBytesMax;  // of all variables, since each is decompressed
  while (!elements.at_end()) {
    const auto element = elements.next();
    if (!element) return element.error();
    const bool is_packed = element->type == Type::kCompressed;
    auto found = is_packed ? find_in_packed(*element, variable, room) : find_in(*element, variable);
    if (!found) return found.error();
    auto& table = *found;
    if (table) return *std::move(table);
  }
  return corrupt(fmt::format("it has no variable '{}'", variable));
}

}  // namespace ddprun
