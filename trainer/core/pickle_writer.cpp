#include "base/check.hpp"
#include "trainer/core/pickle.hpp"
#include "trainer/core/pickle_words.hpp"

#include <algorithm>
#include <bit>
#include <concepts>
#include <limits>
#include <utility>

namespace ddprun {
namespace {

using namespace pickle_words;

class Writer {
 public:
  Writer() {
    op(Op::kProto);
    byte(kProtocol);
  }

  void put(const PyValue& value) {
    std::visit([this](const auto& kind) { write(kind); }, value.kind);
  }

  WrittenPickle finish() {
    op(Op::kStop);
    return std::move(out_);
  }

 private:
  void byte(std::uint8_t value) { out_.text += static_cast<char>(value); }
  void op(Op code) { byte(static_cast<std::uint8_t>(code)); }

  template <std::unsigned_integral T>
  void little_endian(T number, std::size_t bytes = sizeof(T)) {
    for (std::size_t i = 0; i < bytes; ++i) {
      byte(static_cast<std::uint8_t>(number >> (8 * i) & 0xffU));
    }
  }

  void write(PyNone /*none*/) { op(Op::kNone); }
  void write(bool value) { op(value ? Op::kNewTrue : Op::kNewFalse); }

  void write(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    if (std::in_range<std::uint8_t>(value)) {
      op(Op::kBinInt1);
      return byte(static_cast<std::uint8_t>(value));
    }
    if (std::in_range<std::uint16_t>(value)) {
      op(Op::kBinInt2);
      return little_endian(static_cast<std::uint16_t>(value));
    }
    if (std::in_range<std::int32_t>(value)) {
      op(Op::kBinInt);
      return little_endian(static_cast<std::uint32_t>(bits));
    }
    op(Op::kLong1);
    byte(sizeof bits);
    little_endian(bits);
  }

  void write(std::uint64_t value) {
    if (std::in_range<std::int64_t>(value)) return write(static_cast<std::int64_t>(value));
    op(Op::kLong1);
    byte(sizeof value + 1);  // the last byte is for the sign
    little_endian(value);
    byte(0);
  }

  void write(double value) {
    op(Op::kBinFloat);
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (std::size_t i = sizeof bits; i-- > 0;) {  // the only big-endian number
      byte(static_cast<std::uint8_t>(bits >> (8 * i) & 0xffU));
    }
  }

  void write(std::string_view text) {
    DDPRUN_CHECK(std::in_range<std::uint32_t>(text.size()));
    op(Op::kBinUnicode);
    little_endian(static_cast<std::uint32_t>(text.size()));
    out_.text += text;
  }
  void write(const std::string& text) { write(std::string_view(text)); }

  void write(const PyList& list) {
    op(Op::kEmptyList);
    if (list.items.empty()) return;
    op(Op::kMark);
    for (const PyValue& item : list.items) {
      put(item);
    }
    op(Op::kAppends);
  }

  void write(const PyTuple& tuple) {
    if (tuple.items.empty()) return op(Op::kEmptyTuple);
    op(Op::kMark);
    for (const PyValue& item : tuple.items) {
      put(item);
    }
    op(Op::kTuple);
  }

  void write(const PyDict& dict) {
    op(Op::kEmptyDict);
    if (dict.entries.empty()) return;
    op(Op::kMark);
    for (const auto& [key, value] : dict.entries) {
      std::visit([this](const auto& kind) { write(kind); }, key);
      put(value);
    }
    op(Op::kSetItems);
  }

  void global(std::string_view name) {
    op(Op::kGlobal);
    const std::size_t blank = name.find(' ');
    out_.text.append(name.substr(0, blank))
        .append("\n")
        .append(name.substr(blank + 1))
        .append("\n");
  }

  void numbers(const std::vector<std::int64_t>& values) {
    PyTuple tuple;
    for (const std::int64_t value : values) {
      tuple.items.push_back({.kind = value});
    }
    write(tuple);
  }

  void write(const TensorView& tensor) {
    DDPRUN_CHECK(size_of_tensor(tensor.dtype, tensor.shape) == tensor.bytes.size());
    const TypeName& type = *std::ranges::find(kTypes, tensor.dtype, &TypeName::dtype);
    const bool untyped = type.storage.empty();
    const std::size_t unit = untyped ? 1 : size_of(tensor.dtype);

    global(untyped ? kRebuildTensorOfType : kRebuildTensor);
    op(Op::kMark);
    op(Op::kMark);
    write(kStorage);
    global(untyped ? kUntypedStorage : type.storage);
    write(std::to_string(out_.storages.size()));
    write(std::string_view("cpu"));
    write(static_cast<std::int64_t>(tensor.bytes.size() / unit));
    op(Op::kTuple);
    op(Op::kBinPersId);
    write(std::int64_t{0});
    numbers(tensor.shape);
    numbers(dense_strides(tensor.shape));
    write(false);  // requires no gradient
    global(kOrderedDict);
    op(Op::kEmptyTuple);
    op(Op::kReduce);
    if (untyped) global(type.name);
    op(Op::kTuple);
    op(Op::kReduce);
    out_.storages.push_back(tensor.bytes);
  }

  WrittenPickle out_;
};

}  // namespace

WrittenPickle write_pickle(const PyValue& value) {
  Writer writer;
  writer.put(value);
  return writer.finish();
}

}  // namespace ddprun
