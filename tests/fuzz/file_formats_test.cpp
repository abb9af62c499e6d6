// Files of weights, data sets and settings, damaged at random. Run under ASan (preset dev), this
// shows that no parser reads outside a file, that what is accepted is consistent and within its
// limits, and that accepted weights survive being written and read again.

#include "tests/fuzz/damaged.hpp"
#include "tests/trainer/data/mat_fixtures.hpp"
#include "trainer/config_file.hpp"
#include "trainer/core/cifar.hpp"
#include "trainer/core/cifar_pickle.hpp"
#include "trainer/core/idx.hpp"
#include "trainer/core/mat_file.hpp"
#include "trainer/core/safetensors.hpp"
#include "trainer/core/tar.hpp"
#include "trainer/core/zip.hpp"
#include "trainer/core/zip_format.hpp"
#include "trainer/data/tar_index.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::string_view_literals;

constexpr int kFiles = 20'000;
constexpr int kJsonFiles = 8'000;    // exceptions are slow
constexpr int kPackedFiles = 6'000;  // each takes 1 MiB to decompress
constexpr int kConfigs = 3'000;      // each is written to a disk
constexpr std::uint64_t kFileSeed = 20'261'131;

/// Written over a part of a file, so that nothing after it moves.
constexpr std::array kNumbers = {
    "\0"sv,
    "\1"sv,
    "\x7f"sv,
    "\x80"sv,
    "\xff"sv,
    "\0\0\0\0"sv,
    "\1\0\0\0"sv,
    "\0\0\0\1"sv,
    "\0\0\0\x80"sv,
    "\x7f\xff\xff\xff"sv,
    "\xff\xff\xff\x7f"sv,
    "\xff\xff\xff\xff"sv,
    "\0\0\0\0\0\0\0\0"sv,
    "\xff\xff\xff\xff\xff\xff\xff\x7f"sv,
    "\xff\xff\xff\xff\xff\xff\xff\xff"sv};

/// Files with numbers at fixed offsets. testing::Damaged rarely leaves those in place, so half of
/// the files have only some bytes overwritten.
class DamagedFiles {
 public:
  DamagedFiles(std::string_view kind, std::vector<std::string_view> pieces, std::uint64_t seed)
      : damaged_(kind, std::move(pieces), seed) {
    const std::filesystem::directory_iterator files(fmt::format("{}/{}", DDPRUN_FUZZ_CORPUS, kind));
    for (auto count = std::distance(begin(files), end(files)); count > 0; --count) {
      wholes_.push_back(damaged_.next());
    }
  }

  /// Each file of the corpus as it is, then damaged ones.
  std::string next() {
    if (given_ < wholes_.size()) return wholes_[given_++];
    if (below(2) == 0) return damaged_.next();
    std::string file = wholes_[below(wholes_.size())];
    for (std::size_t i = 1 + below(3); i > 0 && !file.empty(); --i) {
      overwrite(file);
    }
    return file;
  }

  std::size_t below(std::size_t bound) { return damaged_.below(bound); }

 private:
  void overwrite(std::string& file) {
    const std::size_t at = below(file.size());
    if (below(3) == 0) {  // one more, or one less
      file[at] = static_cast<char>(file[at] + (below(2) == 0 ? 1 : -1));
      return;
    }
    const std::string_view number = kNumbers[below(kNumbers.size())];
    const std::size_t size = std::min(number.size(), file.size() - at);
    file.replace(at, size, number.substr(0, size));
  }

  testing::Damaged damaged_;
  std::vector<std::string> wholes_;
  std::size_t given_ = 0;  // how many of them were given as they are
};

/// A copy without spare capacity: ASan then sees the first byte that is read past the end.
std::vector<char> exact_copy(const std::string& file) {
  return {file.begin(), file.end()};
}

std::string_view text_of(const std::vector<char>& file) {
  return {file.data(), file.size()};
}

std::span<const std::byte> bytes_of(const std::vector<char>& file) {
  return std::as_bytes(std::span(file));
}

/// For a message: the file as a string literal.
std::string shown(const std::string& file) {
  return ::testing::PrintToString(file);
}

/// Reads every byte, which no compiler can leave out.
void touch(std::span<const std::byte> bytes) {
  static volatile std::size_t kept = 0;
  std::size_t sum = 0;
  for (const std::byte byte : bytes) {
    sum += std::to_integer<std::size_t>(byte);
  }
  kept = kept + sum;
}

/// `pieces`, and each letter of `letters`. REQUIRES: both are literals.
std::vector<std::string_view> with_letters(
    std::string_view letters, std::vector<std::string_view> pieces) {
  for (std::size_t at = 0; at < letters.size(); ++at) {
    pieces.push_back(letters.substr(at, 1));
  }
  return pieces;
}

std::string joined(const std::vector<std::span<const std::byte>>& pieces) {
  std::string file;
  for (const auto piece : pieces) {
    file.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return file;
}

/// Little-endian. REQUIRES: it fits into the file.
template <std::unsigned_integral T>
void write_number(std::string& file, std::size_t at, T number) {
  for (std::size_t i = 0; i < sizeof number; ++i) {
    file[at + i] = static_cast<char>(number >> (8 * i) & 0xffU);
  }
}

// Safetensors.

/// Corrects the length of the header, so that a damaged one is read to its end.
std::string with_length_of_header(std::string file) {
  constexpr std::size_t kLengthBytes = 8;
  const std::size_t brace = file.rfind('}');
  if (brace == std::string::npos || brace < kLengthBytes) return file;
  const std::size_t end = std::min(file.find_first_not_of(' ', brace + 1), file.size());
  write_number(file, 0, std::uint64_t{end - kLengthBytes});
  return file;
}

bool are_alike(const DecodedTensors& left, const DecodedTensors& right) {
  if (left.metadata != right.metadata || left.tensors.size() != right.tensors.size()) return false;
  return std::ranges::all_of(left.tensors, [&right](const TensorView& tensor) {
    const TensorView* const other = right.find(tensor.name);
    return other != nullptr && other->dtype == tensor.dtype && other->shape == tensor.shape &&
           std::ranges::equal(other->bytes, tensor.bytes);
  });
}

TEST(Safetensors, DamagedOnesAreRefusedOrSurviveBeingWritten) {
  testing::Effort effort(kJsonFiles);
  DamagedFiles files(
      "safetensors",
      with_letters(
          "{}[],:\" 0\x80",
          {"\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},",
           "\"__metadata__\":{\"a\":\"b\"},",
           "\"F8_E5M2\"",
           "-1",
           "1e9",
           "9223372036854775807",
           "18446744073709551616",
           "null",
           "\\u0000",
           "\\ud800"}),
      effort.seed(kFileSeed));
  int accepted = 0;
  while (effort.goes_on()) {
    std::string file = files.next();
    if (files.below(2) == 0) file = with_length_of_header(std::move(file));
    const std::vector<char> copy = exact_copy(file);
    const auto decoded = decode_safetensors(bytes_of(copy));
    if (!decoded) continue;
    accepted += 1;
    for (const TensorView& tensor : decoded->tensors) {
      ASSERT_EQ(size_of_tensor(tensor.dtype, tensor.shape), tensor.bytes.size()) << shown(file);
      touch(tensor.bytes);
    }
    const EncodedTensors encoded = encode_safetensors(decoded->tensors, decoded->metadata);
    const std::vector<char> written = exact_copy(encoded.head + joined(encoded.bodies));
    const auto again = decode_safetensors(bytes_of(written));
    ASSERT_TRUE(again) << shown(file) << " is written wrongly: " << again.error().detail;
    ASSERT_TRUE(are_alike(*decoded, *again)) << shown(file);
  }
  EXPECT_GT(accepted, 0);
}

// Zip archives.

/// Corrects the position of the directory, so that a damaged one is read.
std::string with_position_of_directory(std::string file) {
  const std::size_t begin = file.find("PK\1\2"sv);
  const std::size_t end = file.rfind("PK\5\6"sv);
  const bool has_64_bits = file.find("PK\6\6"sv) != std::string::npos;
  if (end == std::string::npos || begin > end || has_64_bits ||
      file.size() - end < zip_format::kEndBytes) {
    return file;
  }
  const std::size_t comment = file.size() - end - zip_format::kEndBytes;
  write_number(file, end + 12, static_cast<std::uint32_t>(end - begin));
  write_number(file, end + 16, static_cast<std::uint32_t>(begin));
  write_number(file, end + 20, static_cast<std::uint16_t>(comment));
  return file;
}

bool are_alike(const std::vector<ZipEntry>& left, const std::vector<ZipEntry>& right) {
  return std::ranges::equal(left, right, [](const ZipEntry& one, const ZipEntry& other) {
    return one.name == other.name && std::ranges::equal(one.bytes, other.bytes);
  });
}

TEST(ZipArchives, DamagedOnesAreRefusedOrSurviveBeingWritten) {
  testing::Effort effort(kFiles);
  DamagedFiles files(
      "zips",
      {"PK\1\2"sv,
       "PK\3\4"sv,
       "PK\5\6"sv,
       "PK\6\6"sv,
       "PK\6\7"sv,
       "FB\4\0ZZZZ"sv,
       "\1\0\x10\0"sv,
       "\0\0\0\0"sv,
       "\xff\xff\xff\xff"sv},
      effort.seed(kFileSeed + 1));
  int accepted = 0;
  while (effort.goes_on()) {
    std::string file = files.next();
    if (files.below(2) == 0) file = with_position_of_directory(std::move(file));
    const std::vector<char> copy = exact_copy(file);
    const auto entries = decode_zip(bytes_of(copy));
    if (!entries) continue;
    accepted += 1;
    std::vector<ZipContent> contents;
    for (const ZipEntry& entry : *entries) {
      ASSERT_LE(entry.name.size(), ZipLimits().name_bytes_max) << shown(file);
      touch(entry.bytes);
      contents.push_back({.name = std::string(entry.name), .text = {}, .bytes = entry.bytes});
    }
    const std::uint64_t zip64_from = files.below(2) == 0 ? 0xffff'ffff : 1 + files.below(300);
    const std::vector<char> written = exact_copy(joined(encode_zip(contents, zip64_from).pieces()));
    const auto again = decode_zip(bytes_of(written));
    ASSERT_TRUE(again) << shown(file) << " is written wrongly: " << again.error().detail;
    ASSERT_TRUE(are_alike(*entries, *again)) << shown(file);
  }
  EXPECT_GT(accepted, 0);
}

// MATLAB files.

constexpr std::size_t kMatHeaderBytes = 128;

/// Corrects the length of the first variable, which then takes the rest of the file.
std::string with_length_of_variable(std::string file) {
  constexpr std::size_t kTypeBytes = 4;
  constexpr std::size_t kTagBytes = 8;
  if (file.size() < kMatHeaderBytes + kTagBytes) return file;
  const std::size_t bytes = file.size() - kMatHeaderBytes - kTagBytes;
  write_number(file, kMatHeaderBytes + kTypeBytes, static_cast<std::uint32_t>(bytes));
  return file;
}

/// Compresses everything after the header, so that the damage is not to the compressed data.
std::string with_packed_variable(const std::string& file) {
  if (file.size() < kMatHeaderBytes) return file;
  return file.substr(0, kMatHeaderBytes) + MatWriter::packed(file.substr(kMatHeaderBytes));
}

TEST(MatFiles, DamagedOnesAreRefusedOrTables) {
  testing::Effort effort(kPackedFiles);
  DamagedFiles files(
      "mat_files",
      {"\x0e\0\0\0\0\0\0\0"sv,
       "\x0e\0\0\0\x30\0\0\0"sv,
       "\x0f\0\0\0"sv,
       "\6\0\0\0\x08\0\0\0"sv,
       "\5\0\0\0\x08\0\0\0"sv,
       "\1\0\0\0\0\0\0\0"sv,
       "\5\0\4\0"sv,
       "\2\0\1\0"sv,
       "\4\0\2\0"sv,
       "\xff\0\4\0"sv,
       "synsets"sv},
      effort.seed(kFileSeed + 2));
  int accepted = 0;
  while (effort.goes_on()) {
    std::string file = files.next();
    if (files.below(2) == 0) file = with_length_of_variable(std::move(file));
    if (files.below(4) == 0) file = with_packed_variable(file);
    const std::vector<char> copy = exact_copy(file);
    const auto table = read_mat_table(text_of(copy), "synsets");
    if (!table) continue;
    accepted += 1;
    ASSERT_FALSE(table->fields.empty()) << shown(file);
    ASSERT_EQ(table->column(table->fields.front()), 0U) << shown(file);
    for (const std::vector<MatValue>& row : table->rows) {
      ASSERT_EQ(row.size(), table->fields.size()) << shown(file);
      for (const MatValue& value : row) {
        const auto* const text = std::get_if<std::string>(&value);
        if (text == nullptr) continue;
        const bool is_ascii = std::ranges::all_of(
            *text, [](char letter) { return static_cast<unsigned char>(letter) < 0x80U; });
        ASSERT_TRUE(is_ascii) << shown(file);
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(MatFiles, LargeOnesAreRefusedEvenIfCompressed) {
  const std::string zeros((std::size_t{64} << 20U) + 1, '\0');
  const auto whole = read_mat_table(zeros, "synsets");
  ASSERT_FALSE(whole);
  EXPECT_TRUE(whole.error().is(Errc::kLimit));
  const auto packed = read_mat_table(MatWriter::file(MatWriter::packed(zeros)), "synsets");
  ASSERT_FALSE(packed);
  EXPECT_TRUE(packed.error().is(Errc::kLimit));
}

TEST(MatFiles, AllTheirVariablesTogetherAreWithinTheLimit) {
  constexpr std::uint32_t kDoubles = 9;
  const std::string packed =
      MatWriter::packed(MatWriter::element(kDoubles, std::string(std::size_t{40} << 20U, '\0')));
  const auto one = read_mat_table(MatWriter::file(packed), "synsets");
  ASSERT_FALSE(one);
  EXPECT_TRUE(one.error().is(Errc::kCorrupt)) << one.error().detail;
  const auto two = read_mat_table(MatWriter::file(packed + packed), "synsets");
  ASSERT_FALSE(two);
  EXPECT_TRUE(two.error().is(Errc::kLimit)) << two.error().detail;
}

// CIFAR's pickles.

/// In the corpus, "<pixels>" stands for the pixels of one image, which would take most of the
/// damage.
std::string with_pixels(std::string file) {
  constexpr std::string_view kMark = "<pixels>";
  const std::string pixels(kCifarPixelBytes, 'x');
  for (std::size_t at = file.find(kMark); at != std::string::npos;
       at = file.find(kMark, at + pixels.size())) {
    file.replace(at, kMark.size(), pixels);
  }
  return file;
}

std::vector<std::string_view> pieces_of_pickles() {
  return with_letters(
      "()}]NRabestu.\x85\x86\x87\x88\x89",
      {"\x80\2"sv,
       "K\x0a"sv,
       "M\0\x0c"sv,
       "h\5"sv,
       "q\5"sv,
       "h\x07"sv,
       "U\2u1"sv,
       "U\4data"sv,
       "U\6labels"sv,
       "X\1\0\0"sv,
       "T\0\x0c\0\0"sv,
       "J\xff\xff\xff\xff"sv,
       "\x8a\1\xff"sv,
       "<pixels>"sv});
}

TEST(CifarBatches, DamagedOnesAreRefusedOrHaveALabelForEachImage) {
  testing::Effort effort(kFiles);
  DamagedFiles files("cifar_batches", pieces_of_pickles(), effort.seed(kFileSeed + 3));
  int accepted = 0;
  while (effort.goes_on()) {
    const std::string file = with_pixels(files.next());
    const std::vector<char> copy = exact_copy(file);
    const auto batch = parse_cifar_pickle(text_of(copy));
    if (!batch) continue;
    accepted += 1;
    ASSERT_FALSE(batch->labels.empty()) << shown(file);
    ASSERT_EQ(batch->pixels.size(), batch->labels.size() * kCifarPixelBytes) << shown(file);
    ASSERT_LE(*std::ranges::max_element(batch->labels), 9) << shown(file);
  }
  EXPECT_GT(accepted, 0);
}

TEST(CifarNames, DamagedOnesAreRefusedOrNoLongerThanTheFile) {
  testing::Effort effort(kFiles);
  DamagedFiles files("cifar_names", pieces_of_pickles(), effort.seed(kFileSeed + 4));
  int accepted = 0;
  while (effort.goes_on()) {
    const std::string file = files.next();
    const std::vector<char> copy = exact_copy(file);
    const auto names = parse_cifar_names(text_of(copy));
    if (!names) continue;
    accepted += 1;
    ASSERT_LE(names->size(), file.size()) << shown(file);
    for (const std::string& name : *names) {
      ASSERT_LE(name.size(), file.size()) << shown(file);
    }
  }
  EXPECT_GT(accepted, 0);
}

// IDX.

TEST(IdxImages, DamagedOnesAreRefusedOrHaveAllTheirPixels) {
  testing::Effort effort(kFiles);
  DamagedFiles files(
      "idx_images", {"\0\0\x08\3"sv, "\0\0\0\1"sv, "\0\0\0\0"sv}, effort.seed(kFileSeed + 5));
  int accepted = 0;
  while (effort.goes_on()) {
    const std::string file = files.next();
    const std::vector<char> copy = exact_copy(file);
    const auto images = parse_idx_images(bytes_of(copy));
    if (!images) continue;
    accepted += 1;
    ASSERT_TRUE(images->count >= 1 && images->count <= kIdxSamplesMax) << shown(file);
    ASSERT_TRUE(images->rows >= 1 && images->rows <= kIdxSideMax) << shown(file);
    ASSERT_TRUE(images->columns >= 1 && images->columns <= kIdxSideMax) << shown(file);
    ASSERT_EQ(std::ssize(images->pixels), images->count * images->rows * images->columns)
        << shown(file);
    touch(images->pixels);
  }
  EXPECT_GT(accepted, 0);
}

TEST(IdxLabels, DamagedOnesAreRefusedOrBelowTheClasses) {
  constexpr int kClasses = 10;
  testing::Effort effort(kFiles);
  DamagedFiles files(
      "idx_labels", {"\0\0\x08\1"sv, "\0\0\0\1"sv, "\x09"sv, "\x0a"sv}, effort.seed(kFileSeed + 6));
  int accepted = 0;
  while (effort.goes_on()) {
    const std::string file = files.next();
    const std::vector<char> copy = exact_copy(file);
    const auto labels = parse_idx_labels(bytes_of(copy), kClasses);
    if (!labels) continue;
    accepted += 1;
    ASSERT_TRUE(labels->count >= 1 && labels->count <= kIdxSamplesMax) << shown(file);
    ASSERT_EQ(std::ssize(labels->classes), labels->count) << shown(file);
    for (const std::byte label : labels->classes) {
      ASSERT_LT(std::to_integer<int>(label), kClasses) << shown(file);
    }
  }
  EXPECT_GT(accepted, 0);
}

// Tar archives.

/// Corrects the checksum of every header, so that a damaged one is read.
std::string with_checksums(std::string archive) {
  constexpr std::string_view kMagic = "ustar";
  constexpr std::size_t kMagicAt = 257;
  constexpr std::size_t kChecksumAt = 148;
  constexpr std::size_t kChecksumBytes = 8;
  for (std::size_t at = 0; at + kTarBlockBytes <= archive.size(); at += kTarBlockBytes) {
    if (archive.compare(at + kMagicAt, kMagic.size(), kMagic) != 0) continue;
    archive.replace(at + kChecksumAt, kChecksumBytes, kChecksumBytes, ' ');
    unsigned sum = 0;
    for (const char byte : std::string_view(archive).substr(at, kTarBlockBytes)) {
      sum += static_cast<unsigned char>(byte);
    }
    const std::string digits = fmt::format("{:06o}", sum);
    archive.replace(at + kChecksumAt, digits.size(), digits);
    archive[at + kChecksumAt + digits.size()] = '\0';
  }
  return archive;
}

TEST(TarArchives, DamagedOnesAreRefusedOrHaveTheirEntriesInOrder) {
  testing::Effort effort(kFiles);
  DamagedFiles files(
      "tars",
      {"./"sv,
       "../"sv,
       "ustar\0"
       "00"sv,
       "ustar  \0"sv,
       "00000001000\0"sv,
       "77777777777\0"sv,
       "\x80\0\0\0\0\0\0\0\0\0\0\1"sv,
       "-1"sv,
       "21 path=long/name of\n"sv,
       "11 size=-5\n"sv,
       std::string_view("\0", 1)},
      effort.seed(kFileSeed + 7));
  int accepted = 0;
  while (effort.goes_on()) {
    std::string file = files.next();
    if (files.below(4) != 0) file = with_checksums(std::move(file));
    const std::vector<char> copy = exact_copy(file);
    const auto entries = list_tar(text_of(copy));
    if (!entries) continue;
    accepted += 1;
    std::int64_t end = 0;
    for (const TarEntry& entry : *entries) {
      ASSERT_GE(entry.offset, end + std::int64_t{kTarBlockBytes}) << shown(file);
      ASSERT_GE(entry.bytes, 0) << shown(file);
      ASSERT_LE(entry.bytes, std::ssize(file) - entry.offset) << shown(file);
      ASSERT_FALSE(entry.path.starts_with("./") || entry.path.ends_with('/')) << shown(file);
      end = entry.offset + padded_to_blocks(entry.bytes);
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(PaxRecords, DamagedOnesAreRefusedOrNoLongerThanTheText) {
  testing::Effort effort(kFiles);
  testing::Damaged texts(
      "pax_records",
      {"path=",
       "size=",
       "21 path=long/name of\n",
       "11 size=-5\n",
       "28 size=9223372036854775808\n",
       "0 ",
       "18446744073709551615 ",
       "-1 ",
       " ",
       "=",
       "\n",
       std::string_view("\0", 1)},
      effort.seed(kFileSeed + 8));
  int accepted = 0;
  while (effort.goes_on()) {
    const std::string text = texts.next();
    const std::vector<char> copy = exact_copy(text);
    const auto records = parse_pax_records(text_of(copy));
    if (!records) continue;
    accepted += 1;
    ASSERT_LT(records->path.value_or("").size(), std::max<std::size_t>(text.size(), 1))
        << shown(text);
  }
  EXPECT_GT(accepted, 0);
}

// The YAML of --config.

class ConfigOnDisk {
 public:
  ConfigOnDisk() = default;
  ConfigOnDisk(const ConfigOnDisk&) = delete;
  ConfigOnDisk& operator=(const ConfigOnDisk&) = delete;
  ~ConfigOnDisk() { std::filesystem::remove(path_); }

  const std::string& write(const std::string& text) const {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }

 private:
  std::string path_ = ::testing::TempDir() + fmt::format("ddprun_fuzz_config.{}.yaml", ::getpid());
};

TEST(Configurations, DamagedOnesAreRefusedOrFlags) {
  testing::Effort effort(kConfigs);
  testing::Damaged texts(
      "configs",
      with_letters(
          "{}[],!'\"~_=\t\r\4\xff",
          {": ",
           "- ",
           "? ",
           "# ",
           "\n",
           "\n  ",
           "&a ",
           "*a",
           "!!str ",
           "!<x> ",
           "%TAG ! x\n",
           "---\n",
           "...\n",
           "|\n ",
           ">-\n ",
           "\\x4",
           "\\U0010ffff",
           "true",
           "false",
           "<<: ",
           "config",
           "\xef\xbb\xbf",
           std::string_view("\0", 1)}),
      effort.seed(kFileSeed + 9));
  const ConfigOnDisk config;
  int accepted = 0;
  while (effort.goes_on()) {
    const std::string text = texts.next();
    const auto arguments = with_config({"--config", config.write(text)});
    if (!arguments) {
      ASSERT_TRUE(arguments.error().is(Errc::kInvalidArgument)) << arguments.error().detail;
      continue;
    }
    accepted += 1;
    for (const std::string& argument : *arguments) {
      ASSERT_TRUE(argument.starts_with("--")) << shown(text) << " has " << argument;
      const std::string_view name = std::string_view(argument).substr(0, argument.find('='));
      ASSERT_EQ(name.find('_'), std::string_view::npos) << shown(text) << " has " << argument;
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(Configurations, AnAliasCannotMakeThemLargerThanTheirLimit) {
  std::string text = "data-dir: &long " + std::string(100'000, 'x') + "\nout: [";
  for (int i = 0; i < 1'000; ++i) {
    text += "*long ,";
  }
  const ConfigOnDisk config;
  const auto arguments = with_config({"--config", config.write(text + "]\n")});
  ASSERT_FALSE(arguments);
  EXPECT_NE(arguments.error().detail.find("more than 4194304 bytes"), std::string::npos)
      << arguments.error().detail;
}

TEST(Configurations, TheNameOfAFlagHasNoValueInIt) {
  const ConfigOnDisk config;
  const auto arguments = with_config({"--config", config.write("config=other.yaml: true\n")});
  ASSERT_FALSE(arguments);
  EXPECT_NE(arguments.error().detail.find("write 'flag: value'"), std::string::npos)
      << arguments.error().detail;
}

}  // namespace
}  // namespace ddprun
