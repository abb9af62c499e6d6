#include "trainer/core/torch_file.hpp"

#include "trainer/weights_file.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>

#include <stdlib.h>

namespace ddprun {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string joined(const EncodedZip& zip) {
  std::string file;
  for (const auto piece : zip.pieces()) {
    for (const std::byte byte : piece) {
      file += static_cast<char>(byte);
    }
  }
  return file;
}

const std::array<float, 6> kValues = {1, 2, 3, 4, 5, 6};

/// A file with one tensor of kValues' storage.
std::string file_with(
    const std::string& offset, const std::string& shape, const std::string& strides) {
  const std::string pickle =
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor_v2\n("s +
      "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"s + "0X\x03\0\0\0cpuK\6tQ"s + offset +
      shape + strides + "\x89" + "ccollections\nOrderedDict\n)RtR.";
  return joined(encode_zip(
      {{.name = "a/data.pkl", .text = pickle, .bytes = {}},
       {.name = "a/data/0", .text = "", .bytes = std::as_bytes(std::span(kValues))},
       {.name = "a/version", .text = "3\n", .bytes = {}}}));
}

std::string refusal(const std::string& file, const TorchFileLimits& limits = {}) {
  const auto decoded = decode_torch_file(bytes_of(file), limits);
  return decoded ? "accepted" : decoded.error().detail;
}

std::vector<float> floats_of(const TorchFile& file) {
  const auto* const view = file.root.get_if<TensorView>();
  std::vector<float> values(view == nullptr ? 0 : view->bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return values;
}

TEST(TorchFile, TakesADenseTensorFromItsStorageWithoutACopy) {
  const std::string bytes = file_with("K\2", "K\2K\2\x86"s, "K\2K\1\x86");
  const auto file = decode_torch_file(bytes_of(bytes));
  ASSERT_TRUE(file) << file.error().detail;
  EXPECT_TRUE(file->copies.empty());
  EXPECT_EQ(floats_of(*file), (std::vector<float>{3, 4, 5, 6}));
}

TEST(TorchFile, MakesATransposedTensorDense) {
  const std::string bytes = file_with("K\0"s, "K\3K\2\x86", "K\1K\3\x86");
  const auto file = decode_torch_file(bytes_of(bytes));
  ASSERT_TRUE(file) << file.error().detail;
  EXPECT_EQ(floats_of(*file), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(TorchFile, RepeatsWhatHasAStrideOfZero) {
  const std::string bytes = file_with("K\5", "K\3\x85", "K\0\x85"s);
  const auto file = decode_torch_file(bytes_of(bytes));
  ASSERT_TRUE(file) << file.error().detail;
  EXPECT_EQ(floats_of(*file), (std::vector<float>{6, 6, 6}));
}

TEST(TorchFile, ReadsTensorsWithoutElements) {
  const std::string bytes = file_with("K\xff", "K\0K\3\x86"s, "K\3K\1\x86");
  const auto file = decode_torch_file(bytes_of(bytes));
  ASSERT_TRUE(file) << file.error().detail;
  EXPECT_TRUE(floats_of(*file).empty());
}

TEST(TorchFile, RefusesATensorThatReachesOutOfItsStorage) {
  EXPECT_THAT(refusal(file_with("K\1", "K\6\x85", "K\1\x85")), HasSubstr("storage '0' is smaller"));
  EXPECT_THAT(refusal(file_with("K\7", "K\1\x85", "K\1\x85")), HasSubstr("smaller"));
  EXPECT_THAT(refusal(file_with("K\0"s, "K\2\x85", "K\6\x85")), HasSubstr("smaller"));
  const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
  EXPECT_THAT(refusal(file_with("K\0"s, "K\3\x85", huge + "\x85")), HasSubstr("smaller"));
  EXPECT_THAT(refusal(file_with(huge, "K\1\x85", "K\1\x85")), HasSubstr("smaller"));
  EXPECT_THAT(
      refusal(file_with("K\0"s, huge + huge + "\x86", "K\0K\0\x86"s)), HasSubstr("possible"));
}

TEST(TorchFile, RefusesToMakeATensorOfAnySizeOfOneElement) {
  // 2^38 floats, a terabyte, of stride zero.
  const std::string much = "\x8a\x05\0\0\0\0\x40"s;
  EXPECT_THAT(refusal(file_with("K\0"s, much + "\x85", "K\0\x85"s)), HasSubstr("bytes in total"));
  EXPECT_THAT(
      refusal(file_with("K\0"s, "K\3K\2\x86", "K\1K\3\x86"), {.copied_bytes_max = 23}),
      HasSubstr("23 bytes in total"));
}

TEST(TorchFile, RefusesArchivesOfOthers) {
  const ZipContent version{.name = "a/version", .text = "3\n", .bytes = {}};
  const ZipContent pickle{.name = "a/data.pkl", .text = "\x80\x02N.", .bytes = {}};
  EXPECT_THAT(refusal(joined(encode_zip({version}))), HasSubstr("no data.pkl"));
  EXPECT_THAT(refusal(joined(encode_zip({pickle}))), HasSubstr("no version"));
  EXPECT_THAT(
      refusal(joined(
          encode_zip({pickle, version, {.name = "a/constants.pkl", .text = "", .bytes = {}}}))),
      HasSubstr("TorchScript"));
  EXPECT_THAT(
      refusal(joined(
          encode_zip({pickle, version, {.name = "a/byteorder", .text = "big", .bytes = {}}}))),
      HasSubstr("little-endian"));
  EXPECT_EQ(refusal(joined(encode_zip({pickle, version}))), "accepted");
}

TEST(TorchFile, WantsStoragesAsLongAsThePickleSays) {
  std::string const pickle = joined(encode_torch_file(
      {.kind = TensorView{
           .name = {},
           .dtype = DType::kF32,
           .shape = {6},
           .bytes = std::as_bytes(std::span(kValues))}}));
  const auto entries = decode_zip(bytes_of(pickle));
  ASSERT_TRUE(entries);
  std::vector<ZipContent> shorter;
  for (const ZipEntry& entry : *entries) {
    const bool is_storage = entry.name == "archive/data/0";
    shorter.push_back(
        {.name = std::string(entry.name),
         .text = "",
         .bytes = is_storage ? entry.bytes.first(20) : entry.bytes});
  }
  EXPECT_THAT(refusal(joined(encode_zip(shorter))), HasSubstr("has 20 bytes, expected 24"));
}

class WeightsFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "ddprun_weights_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    room_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(room_); }

  static TensorView weights() {
    return {
        .name = "module.fc.weight",
        .dtype = DType::kF32,
        .shape = {2, 3},
        .bytes = std::as_bytes(std::span(kValues))};
  }

  std::filesystem::path room_;
};

TEST_F(WeightsFiles, AreReadByContentWhateverTheirName) {
  const auto torch = room_ / "a.safetensors";
  const auto safetensors = room_ / "b.pt";
  ASSERT_TRUE(write_torch_file(torch, {.kind = to_dict({weights()})}));
  ASSERT_TRUE(write_safetensors_file(safetensors, {weights()}, {}));
  for (const auto& path : {torch, safetensors}) {
    const auto file = read_weights_file(path);
    ASSERT_TRUE(file) << file.error().detail;
    EXPECT_EQ((*file)->format() == WeightsFormat::kTorch, path == torch);
    ASSERT_EQ((*file)->weights().tensors.size(), 1U);
    EXPECT_TRUE((*file)->weights().had_prefix);
    const TensorView& tensor = (*file)->weights().tensors[0];
    EXPECT_EQ(tensor.name, "fc.weight");
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, std::as_bytes(std::span(kValues))));
  }
}

TEST_F(WeightsFiles, ReplaceWhatWasThereAndLeaveNothingBeside) {
  const auto path = room_ / "a.pt";
  ASSERT_TRUE(write_torch_file(path, {.kind = to_dict({weights()})}));
  ASSERT_TRUE(write_torch_file(path, {.kind = to_dict({weights()}, "x.")}));
  const auto file = read_weights_file(path);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->weights().tensors[0].name, "x.module.fc.weight");
  const auto entries = std::filesystem::directory_iterator(room_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
  const auto nowhere = write_torch_file(room_ / "no/such.pt", {});
  ASSERT_FALSE(nowhere);
  EXPECT_TRUE(nowhere.error().is(Errc::kNotFound));
}

TEST(WeightsFile, NamesWhatItIsNot) {
  const auto why = [](std::string content) {
    const auto file = WeightsFile::decode(std::move(content));
    return file ? "accepted"s : file.error().detail;
  };
  EXPECT_THAT(why(""), HasSubstr("neither"));
  EXPECT_THAT(why("<html>"), HasSubstr("neither"));
  EXPECT_THAT(
      why("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
      HasSubstr("before torch 1.6"));
  PyDict no_weights;
  no_weights.add("epoch", {.kind = 3});
  EXPECT_THAT(why(joined(encode_torch_file({.kind = no_weights}))), HasSubstr("it has 'epoch'"));
  EXPECT_THAT(why(joined(encode_torch_file({.kind = 3}))), HasSubstr("it contains a int"));
}

}  // namespace
}  // namespace ddprun
