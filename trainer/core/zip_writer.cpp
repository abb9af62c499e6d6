#include "base/check.hpp"
#include "trainer/core/zip.hpp"
#include "trainer/core/zip_format.hpp"

#include <concepts>
#include <set>

#include <zlib.h>

namespace ddprun {
namespace {

using namespace zip_format;

constexpr std::uint16_t kVersion = 20;
constexpr std::uint16_t kVersion64 = 45;
constexpr std::uint16_t kFirstDay = 0x0021;    // 1980-01-01: equal input gives equal bytes
constexpr std::size_t kEndOfMarkAndSize = 12;  // of the 64-bit end record; not part of its size
constexpr std::size_t kExtraHead = 4;

template <std::unsigned_integral T>
void put(std::string& to, T number) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to += static_cast<char>(number >> (8 * i) & 0xffU);
  }
}

std::uint32_t crc_of(const ZipContent& content) {
  uLong crc = crc32_z(0, nullptr, 0);
  const auto text = std::as_bytes(std::span(content.text));
  for (const auto part : {text, content.bytes}) {
    if (part.empty()) continue;  // zlib would start over without a buffer
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());  // NOLINT
  }
  return static_cast<std::uint32_t>(crc);
}

/// The values in both headers of an entry.
struct Facts {
  std::uint32_t crc = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};

class Writer {
 public:
  explicit Writer(std::uint64_t zip64_from) : zip64_from_(zip64_from) {}

  void add(const ZipContent& content) {
    DDPRUN_CHECK(content.name.size() < kFull16);
    const Facts facts{
        .crc = crc_of(content),
        .size = content.text.size() + content.bytes.size(),
        .offset = place_};
    std::string head = local_header(content.name, facts);
    head += content.text;
    add_to_directory(content.name, facts);
    place_ += head.size() + content.bytes.size();
    zip_.heads.push_back(std::move(head));
    zip_.bodies.push_back(content.bytes);
  }

  EncodedZip finish() {
    const std::uint64_t count = zip_.heads.size();
    const std::uint64_t size = directory_.size();
    zip_.tail = std::move(directory_);
    const bool large = is_large(place_) || is_large(size) || count >= kFull16 || is_large(count);
    if (large) put_end64(count, size);
    put(zip_.tail, kEndMark);
    put(zip_.tail, std::uint32_t{0});  // both disk numbers
    for (int i = 0; i < 2; ++i) {      // on this disk, and in total
      put(zip_.tail, large ? kFull16 : static_cast<std::uint16_t>(count));
    }
    put(zip_.tail, large ? kFull32 : static_cast<std::uint32_t>(size));
    put(zip_.tail, large ? kFull32 : static_cast<std::uint32_t>(place_));
    put(zip_.tail, std::uint16_t{0});  // no comment
    return std::move(zip_);
  }

 private:
  bool is_large(std::uint64_t number) const { return number >= zip64_from_; }

  std::uint32_t short_of(std::uint64_t number) const {
    return is_large(number) ? kFull32 : static_cast<std::uint32_t>(number);
  }

  /// The fields that both headers have in common, in order.
  void put_common(std::string& to, const Facts& facts, const std::string& name, std::size_t extra) {
    const bool large = is_large(facts.size) || is_large(facts.offset);
    put(to, large ? kVersion64 : kVersion);
    put(to, kFlagUtf8);
    put(to, kStored);
    put(to, std::uint16_t{0});  // midnight
    put(to, kFirstDay);
    put(to, facts.crc);
    put(to, short_of(facts.size));
    put(to, short_of(facts.size));
    put(to, static_cast<std::uint16_t>(name.size()));
    put(to, static_cast<std::uint16_t>(extra));
  }

  std::string local_header(const std::string& name, const Facts& facts) {
    std::string extra;
    if (is_large(facts.size)) {
      put(extra, kExtra64);
      put(extra, std::uint16_t{16});
      put(extra, facts.size);
      put(extra, facts.size);
    }
    const std::size_t before = place_ + kLocalBytes + name.size() + extra.size() + kExtraHead;
    const std::size_t padding = (kZipAlignment - before % kZipAlignment) % kZipAlignment;
    put(extra, kExtraPadding);
    put(extra, static_cast<std::uint16_t>(padding));
    extra.append(padding, 'Z');

    std::string head;
    put(head, kLocalMark);
    put_common(head, facts, name, extra.size());
    return head.append(name).append(extra);
  }

  void add_to_directory(const std::string& name, const Facts& facts) {
    std::string numbers;
    if (is_large(facts.size)) {
      put(numbers, facts.size);
      put(numbers, facts.size);
    }
    if (is_large(facts.offset)) put(numbers, facts.offset);
    std::string extra;
    if (!numbers.empty()) {
      put(extra, kExtra64);
      put(extra, static_cast<std::uint16_t>(numbers.size()));
      extra += numbers;
    }
    put(directory_, kCentralMark);
    put(directory_, kVersion64);
    put_common(directory_, facts, name, extra.size());
    put(directory_, std::uint16_t{0});  // no comment
    put(directory_, std::uint16_t{0});  // on the first disk
    put(directory_, std::uint16_t{0});  // internal attributes
    put(directory_, std::uint32_t{0});  // external attributes
    put(directory_, short_of(facts.offset));
    directory_.append(name).append(extra);
  }

  void put_end64(std::uint64_t count, std::uint64_t size) {
    std::string& tail = zip_.tail;
    const std::uint64_t end = place_ + tail.size();
    put(tail, kEnd64Mark);
    put(tail, std::uint64_t{kEnd64Bytes - kEndOfMarkAndSize});
    put(tail, kVersion64);
    put(tail, kVersion64);
    put(tail, std::uint64_t{0});  // both disk numbers
    put(tail, count);
    put(tail, count);
    put(tail, size);
    put(tail, place_);
    put(tail, kLocator64Mark);
    put(tail, std::uint32_t{0});
    put(tail, end);
    put(tail, std::uint32_t{1});  // disks
  }

  std::uint64_t zip64_from_;
  EncodedZip zip_;
  std::string directory_;
  std::uint64_t place_ = 0;
};

}  // namespace

std::size_t EncodedZip::size() const {
  std::size_t bytes = 0;
  for (const auto piece : pieces()) {
    bytes += piece.size();
  }
  return bytes;
}

std::vector<std::span<const std::byte>> EncodedZip::pieces() const {
  std::vector<std::span<const std::byte>> all;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    all.push_back(std::as_bytes(std::span(heads[i])));
    all.push_back(bodies[i]);
  }
  all.push_back(std::as_bytes(std::span(tail)));
  return all;
}

EncodedZip encode_zip(const std::vector<ZipContent>& contents, std::uint64_t zip64_from) {
  Writer writer(zip64_from);
  std::set<std::string_view> names;
  for (const ZipContent& content : contents) {
    DDPRUN_CHECK(names.insert(content.name).second);
    writer.add(content);
  }
  return writer.finish();
}

}  // namespace ddprun
