// Thousands of files for torch.load(), damaged at random: as an archive, and as a pickle in a sound
// archive. Run under ASan (preset dev), this shows that none reads or writes out of bounds, and
// none uses more memory than its limits.

#include "trainer/core/torch_file.hpp"

#include "base/check.hpp"
#include "tests/fuzz/damaged.hpp"
#include "trainer/core/state_dict.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

namespace ddprun {
namespace {

constexpr int kArchives = 30'000;
constexpr int kPickles = 30'000;
constexpr std::uint64_t kSeed = 20'260'611;
constexpr std::array<float, 6> kValues = {1, 2, 3, 4, 5, 6};
// Opcodes, so that one replaces another more often than by chance.
constexpr std::string_view kOps = ".(JKMNQRXabc}ehj]qrstu)G\x80\x85\x86\x87\x88\x89\x8a";

std::string joined(const EncodedZip& zip) {
  std::string file;
  for (const auto piece : zip.pieces()) {
    file.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return file;
}

PyValue sample() {
  const auto bytes = std::as_bytes(std::span(kValues));
  const TensorView view{.name = {}, .dtype = DType::kF32, .shape = {2, 3}, .bytes = bytes};
  const TensorView narrow{.name = {}, .dtype = DType::kF8E4M3, .shape = {4, 6}, .bytes = bytes};
  PyDict model;
  model.add("fc.weight", {.kind = view});
  model.add("fc.scale", {.kind = narrow});
  PyDict root;
  root.add("model", {.kind = model});
  root.add("epoch", {.kind = std::int64_t{1} << 40U});
  root.add("lr", {.kind = PyTuple{{{.kind = 0.5}, {.kind = PyNone{}}, {.kind = true}}}});
  root.add("list", {.kind = PyList{{{.kind = 300}, {.kind = -3}}}});
  return {.kind = root};
}

/// A pickle as torch writes them, with memory, an OrderedDict and what is built on it.
std::string torch_pickle() {
  using namespace std::string_literals;
  return "\x80\x02}q\0(X\5\0\0\0modelq\1ccollections\nOrderedDict\nq\2)Rq\3(X\1\0\0\0wq\4"s
         "ctorch._utils\n_rebuild_parameter\nctorch._utils\n_rebuild_tensor_v2\nq\5((X\7\0\0\0storageq\6"s
         "ctorch\nFloatStorage\nq\7X\1\0\0\0"s +
         "0q\x08X\3\0\0\0cpuq\tK\6tq\nQK\0K\3K\2\x86K\1K\3\x86\x89h\2)RtR\x88h\2)R\x87Rq\x0bX\1\0\0\0vh\x0b"s
         "u}X\x09\0\0\0_metadatah\2)RsbX\4\0\0\0sizectorch\nSize\nK\1\x85\x85Ru."s;
}

class Damage {
 public:
  explicit Damage(std::uint64_t seed) : random_(seed) {}

  std::string of(std::string text) {
    for (std::size_t i = 1 + below(3); i > 0 && !text.empty(); --i) {
      change(text);
    }
    return text;
  }

  std::size_t below(std::size_t bound) { return random_() % bound; }

 private:
  void change(std::string& text) {
    const std::size_t at = below(text.size());
    switch (below(6)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text[at] = kOps[below(kOps.size())];
        break;
      case 2:
        text.insert(at, 1, kOps[below(kOps.size())]);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size()), below(60)));
        break;
      case 4:
        text.erase(at, 1 + below(20));
        break;
      default:
        text.replace(at, std::min<std::size_t>(4, text.size() - at), "\xff\xff\xff\x7f");
        break;
    }
  }

  std::mt19937_64 random_;
};

std::size_t touched = 0;

/// Reads every byte that a value names.
void touch(const PyValue& value) {
  if (const auto* const view = value.get_if<TensorView>()) {
    DDPRUN_CHECK(size_of_tensor(view->dtype, view->shape) == view->bytes.size());
    for (const std::byte byte : view->bytes) {
      touched += std::to_integer<std::size_t>(byte);
    }
  }
  if (const auto* const list = value.get_if<PyList>()) {
    for (const PyValue& item : list->items) {
      touch(item);
    }
  }
  if (const auto* const dict = value.get_if<PyDict>()) {
    for (const PyEntry& entry : dict->entries) {
      touch(entry.value);
    }
  }
}

/// Whether it was accepted. An accepted file is written and read once more.
bool run_file(const std::string& file) {
  TorchFileLimits limits;
  limits.copied_bytes_max = std::size_t{1} << 20U;
  const auto decoded = decode_torch_file(std::as_bytes(std::span(file)), limits);
  if (!decoded) return false;
  touch(decoded->root);
  static_cast<void>(find_state_dict(decoded->root).has_value());
  const std::string again = joined(encode_torch_file(decoded->root));
  DDPRUN_CHECK(decode_torch_file(std::as_bytes(std::span(again))).has_value());
  return true;
}

std::string refusal(const std::string& file) {
  const auto decoded = decode_torch_file(std::as_bytes(std::span(file)));
  return decoded ? "accepted" : decoded.error().detail;
}

TEST(TorchFiles, DamagedAsArchivesTheyAreRefusedOrWithinTheirBytes) {
  const std::string whole = joined(encode_torch_file(sample()));
  ASSERT_TRUE(run_file(whole)) << refusal(whole);
  testing::Effort effort(kArchives);
  Damage damage(effort.seed(kSeed));
  std::int64_t refused = 0;
  while (effort.goes_on()) {
    refused += run_file(damage.of(whole)) ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
}

TEST(TorchFiles, DamagedAsPicklesTheyAreRefusedOrWithinTheirBytes) {
  const auto bytes = std::as_bytes(std::span(kValues));
  const std::array<std::string, 2> wholes = {write_pickle(sample()).text, torch_pickle()};
  const auto file_of = [&](const std::string& pickle) {
    return joined(encode_zip(
        {{.name = "a/data.pkl", .text = pickle, .bytes = {}},
         {.name = "a/data/0", .text = "", .bytes = bytes},
         {.name = "a/data/1", .text = "", .bytes = bytes},
         {.name = "a/version", .text = "3\n", .bytes = {}}}));
  };
  for (const std::string& whole : wholes) {
    ASSERT_TRUE(run_file(file_of(whole))) << refusal(file_of(whole));
  }
  testing::Effort effort(kPickles);
  Damage damage(effort.seed(kSeed));
  std::int64_t accepted = 0;
  std::int64_t refused = 0;
  while (effort.goes_on()) {
    const bool passes = run_file(file_of(damage.of(wholes[damage.below(wholes.size())])));
    (passes ? accepted : refused) += 1;
  }
  EXPECT_GT(accepted, 0);  // some files pass the first check
  EXPECT_GT(refused, 0);
  EXPECT_GT(touched, 0U);
}

}  // namespace
}  // namespace ddprun
