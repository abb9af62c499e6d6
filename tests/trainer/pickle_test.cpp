#include "trainer/core/pickle.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <string>

namespace ddprun {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

/// One storage, "0", of six floats.
class Floats {
 public:
  TensorSource source() {
    return [this](const StoredTensor& tensor) -> Result<TensorView> {
      asked_.push_back(tensor);
      if (tensor.storage != "0") return make_error(Errc::kCorrupt, "no such storage");
      return TensorView{.name = {}, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = bytes()};
    };
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(values_)); }
  const std::vector<StoredTensor>& asked() const { return asked_; }

 private:
  std::array<float, 6> values_ = {1, 2, 3, 4, 5, 6};
  std::vector<StoredTensor> asked_;
};

Result<PyValue> read(const std::string& pickle, const PickleLimits& limits = {}) {
  Floats floats;
  return read_pickle(pickle, floats.source(), limits);
}

/// The error for a pickle with this body between its first two bytes and its end.
std::string refusal(const std::string& body, const PickleLimits& limits = {}) {
  const auto value = read("\x80\x02" + body + ".", limits);
  return value ? "accepted" : value.error().detail;
}

template <class T>
T only(const std::string& body) {
  const auto value = read("\x80\x02" + body + ".");
  EXPECT_TRUE(value) << (value ? "" : value.error().detail);
  const T* const found = value ? value->get_if<T>() : nullptr;
  EXPECT_NE(found, nullptr);
  return found == nullptr ? T() : *found;
}

// Opcodes by hand, as pickletools documents them.
std::string storage(const std::string& elements = "K\x06") {
  return "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"s + "0X\x03\0\0\0cpu"s + elements +
         "tQ";
}

std::string tensor(const std::string& of = storage()) {
  return "ctorch._utils\n_rebuild_tensor_v2\n("s + of + "K\0K\x02K\x03\x86K\x03K\x01\x86\x89"s +
         "ccollections\nOrderedDict\n)RtR";
}

TEST(Pickle, ReadsWholeNumbersOfEverySize) {
  EXPECT_EQ(only<std::int64_t>("K\xff"), 255);
  EXPECT_EQ(only<std::int64_t>("M\xff\xff"), 65535);
  EXPECT_EQ(only<std::int64_t>("J\xfb\xff\xff\xff"), -5);
  EXPECT_EQ(only<std::int64_t>("\x8a\x00"s), 0);
  EXPECT_EQ(only<std::int64_t>("\x8a\x01\xff"), -1);
  EXPECT_EQ(only<std::int64_t>("\x8a\x06\0\0\0\0\0\x01"s), 1LL << 40U);
  EXPECT_EQ(
      only<std::int64_t>("\x8a\x08\0\0\0\0\0\0\0\x80"s), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(
      only<std::uint64_t>("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0"s),
      std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(only<std::int64_t>("\x8a\x09\x05\0\0\0\0\0\0\0\0"s), 5);
  EXPECT_THAT(refusal("\x8a\x09\0\0\0\0\0\0\0\0\x01"s), HasSubstr("more than 64 bits"));
  EXPECT_THAT(refusal("\x8a\x0a\0\0\0\0\0\0\0\0\0\0"s), HasSubstr("more than 64 bits"));
}

TEST(Pickle, ReadsOtherPlainValues) {
  EXPECT_EQ(only<double>("G?\xf8\0\0\0\0\0\0"s), 1.5);
  EXPECT_TRUE(only<bool>("\x88"));
  EXPECT_FALSE(only<bool>("\x89"));
  EXPECT_EQ(only<std::string>("X\x03\0\0\0abc"s), "abc");
  only<PyNone>("N");
  EXPECT_EQ(only<PyTuple>("(K\1K\2K\3K\4t").items.size(), 4U);
  EXPECT_TRUE(only<PyTuple>(")").items.empty());
  EXPECT_EQ(only<PyList>("](K\1K\2e").items.size(), 2U);
}

TEST(Pickle, ReadsDictsInTheirOrderWithTheLastOfEqualKeys) {
  const auto dict = only<PyDict>("}(X\1\0\0\0bK\1K\7K\2X\1\0\0\0bK\3u"s);
  ASSERT_EQ(dict.entries.size(), 2U);
  EXPECT_EQ(dict.entries[0].key, PyKey("b"));
  EXPECT_EQ(*dict.find("b")->get_if<std::int64_t>(), 3);
  EXPECT_EQ(*dict.find(7)->get_if<std::int64_t>(), 2);
}

TEST(Pickle, ReadsOrderedDictsAndDropsTheirAttributes) {
  const auto dict = only<PyDict>("ccollections\nOrderedDict\n)R(X\1\0\0\0aK\1u}X\1\0\0\0m}sb"s);
  ASSERT_EQ(dict.entries.size(), 1U);
  const auto pairs = only<PyDict>("ccollections\nOrderedDict\n](](X\1\0\0\0aK\1ee\x85R"s);
  EXPECT_EQ(pairs.entries.size(), 1U);
}

TEST(Pickle, AsksForTensorsByStorageAndStrides) {
  Floats floats;
  const auto value = read_pickle("\x80\x02" + tensor() + ".", floats.source());
  ASSERT_TRUE(value) << value.error().detail;
  ASSERT_EQ(floats.asked().size(), 1U);
  EXPECT_EQ(floats.asked()[0].storage_bytes, 24U);
  EXPECT_EQ(floats.asked()[0].strides, (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(value->get_if<TensorView>()->bytes.data(), floats.bytes().data());
}

TEST(Pickle, TakesAParameterForItsTensor) {
  const auto view = only<TensorView>(
      "ctorch._utils\n_rebuild_parameter\n" + tensor() +
      "\x88"
      "ccollections\nOrderedDict\n)R\x87R");
  EXPECT_EQ(view.shape, (std::vector<std::int64_t>{2, 3}));
}

TEST(Pickle, SharesWhatIsRemembered) {
  const auto list = only<PyList>("](X\1\0\0\0aq\1h\1h\1e"s);
  ASSERT_EQ(list.items.size(), 3U);
  EXPECT_EQ(*list.items[2].get_if<std::string>(), "a");
}

TEST(Pickle, RefusesToRunAnything) {
  // What pickle.dumps() writes for an object whose __reduce__ is (os.system, ("true",)).
  EXPECT_THAT(refusal("cposix\nsystem\nX\4\0\0\0true\x85R"s), HasSubstr("'posix system'"));
  EXPECT_THAT(refusal("c__builtin__\neval\nX\1\0\0\0001\x85R"s), HasSubstr("'__builtin__ eval'"));
  EXPECT_THAT(refusal("cos\nsystem\n0"), HasSubstr("byte 2: it refers to 'os system'"));
  EXPECT_THAT(refusal("c\x1b[2J\nx\n"), HasSubstr("'?[2J x'"));  // nor anything at a terminal
  EXPECT_THAT(refusal("ctorch\nFloatStorage\n)R"), HasSubstr("is not a function"));
  EXPECT_THAT(refusal("K\1)R"), HasSubstr("not a function"));
}

TEST(Pickle, NamesTheTypeOfATensorThatIsNotRead) {
  EXPECT_THAT(
      refusal("ctorch\nuint64\n"),
      HasSubstr("it has a tensor of dtype torch.uint64, which cannot be read"));
  EXPECT_THAT(refusal("ctorch\nComplexFloatStorage\n"), HasSubstr("dtype torch.complex64"));
}

TEST(Pickle, NamesAnOpcodeThatItDoesNotKnow) {
  EXPECT_THAT(refusal("\x93"), HasSubstr("byte 2: opcode 0x93"));  // STACK_GLOBAL
  EXPECT_THAT(refusal("N0N"), HasSubstr("byte 3: opcode 0x30"));   // POP
  EXPECT_THAT(read("\x80\x04N.").error().detail, HasSubstr("protocol 4"));
}

TEST(Pickle, RefusesEveryTruncation) {
  const std::string whole =
      "\x80\x02}(X\1\0\0\0aq\1"s + tensor() + "X\1\0\0\0bG?\xf8\0\0\0\0\0\0"s + "M\1\1\x8a\2\1\1u.";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ASSERT_FALSE(read(whole.substr(0, size))) << size;
  }
}

TEST(Pickle, RefusesAStackThatDoesNotHoldWhatIsTaken) {
  for (const char* body :
       {"",
        "t",
        "\x85",
        "a",
        "]a",
        "K\1(a",
        "e",
        "s",
        "}s",
        "}(K\1u",
        "R",
        "Q",
        "b",
        "q\1",
        "h\1",
        "NN",
        "(N",
        "(K\1\x86"}) {
    EXPECT_NE(refusal(body), "accepted") << body;
  }
}

TEST(Pickle, RefusesTensorsOfOtherForm) {
  EXPECT_THAT(refusal(tensor("K\1")), HasSubstr("with wrong arguments"));
  EXPECT_THAT(refusal(tensor(storage("J\xff\xff\xff\xff"))), HasSubstr("persistent id"));
  EXPECT_THAT(refusal(tensor(storage("\x8a\x08\0\0\0\0\0\0\0\x40"s))), HasSubstr("persistent id"));
  EXPECT_THAT(refusal(storage()), HasSubstr("storage '0' stands where a value is expected"));
  EXPECT_THAT(refusal("}]K\1s"), HasSubstr("key of a dict"));
}

TEST(Pickle, RefusesAListThatContainsItself) {
  EXPECT_THAT(refusal("]q\1h\1a"), HasSubstr("nested deeper"));
}

TEST(Pickle, RefusesTheDoublingsOfASmallFile) {
  // 2^40 values, encoded in 200 bytes.
  std::string body = "(]q\x01";
  for (char i = 1; i <= 40; ++i) {
    body += "]("s + "h" + i + "h" + i + "eq" + static_cast<char>(i + 1);
  }
  EXPECT_THAT(refusal(body + "t", {.values_max = 100'000, .depth_max = 100}), HasSubstr("values"));
  std::string texts = "X\xe8\3\0\0"s + std::string(1000, 'x') + "q\1](";
  for (int i = 0; i < 2000; ++i) {
    texts += "h\1";
  }
  EXPECT_THAT(
      refusal("](" + texts + "ee", {.text_bytes_max = 1'000'000}), HasSubstr("bytes of text"));
}

TEST(Pickle, RefusesWhatIsTooLargeBeforeItReadsIt) {
  const auto value = read(std::string(1000, 'N'), {.bytes_max = 999});
  ASSERT_FALSE(value);
  EXPECT_TRUE(value.error().is(Errc::kLimit));
}

TEST(Pickle, ReadsBackWhatItWrites) {
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  PyDict dict;
  const TensorView view{
      .name = {}, .dtype = DType::kF32, .shape = {2, 3}, .bytes = std::as_bytes(std::span(values))};
  dict.add("t", {.kind = view});
  dict.add(7, {.kind = PyTuple{{{.kind = true}, {.kind = PyNone{}}, {.kind = -0.5}}}});
  PyList numbers;
  const std::vector<std::int64_t> all = {0, 255, 256, 65535, 65536, -1, 1LL << 31U, 1LL << 62U};
  for (const std::int64_t number : all) {
    numbers.items.push_back({.kind = number});
  }
  dict.add("n", {.kind = numbers});
  dict.add("e", {.kind = PyList{{{.kind = PyDict{}}, {.kind = PyList{}}, {.kind = PyTuple{}}}}});
  dict.add("s", {.kind = "größe"s});

  const WrittenPickle written = write_pickle({.kind = dict});
  ASSERT_EQ(written.storages.size(), 1U);
  EXPECT_EQ(written.storages[0].data(), view.bytes.data());
  const auto value = read(written.text);
  ASSERT_TRUE(value) << value.error().detail;
  const auto* const again = value->get_if<PyDict>();
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->find("t")->get_if<TensorView>()->shape, view.shape);
  EXPECT_EQ(*again->find(7)->get_if<PyTuple>()->items[2].get_if<double>(), -0.5);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(*again->find("n")->get_if<PyList>()->items[i].get_if<std::int64_t>(), all[i]);
  }
  EXPECT_EQ(*again->find("s")->get_if<std::string>(), "größe");
  EXPECT_EQ(type_name(again->find("e")->get_if<PyList>()->items[2]), "tuple");
}

}  // namespace
}  // namespace ddprun
