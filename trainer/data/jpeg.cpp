#include "trainer/data/jpeg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <utility>

#include <jerror.h>
#include <jpeglib.h>

namespace ddprun {
namespace {

/// libjpeg reports an error by a call that must not return, so it jumps: over frames of libjpeg and
/// of decode_rows(), none of which owns anything.
struct Failure {
  jpeg_error_mgr manager;  // first, so that libjpeg's pointer to it also points to this
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> text;
};

[[noreturn]] void fail(j_common_ptr info) {
  auto* const failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->text.data());
  std::longjmp(failure->jump, 1);
}

/// Level -1 is a warning; other levels are only informative.
void weigh(j_common_ptr info, int level) {
  if (level >= 0) return;
  // Bytes between two segments are skipped, which affects no pixel.
  if (info->err->msg_code == JWRN_EXTRANEOUS_DATA) return;
  fail(info);
}

void stay_silent(j_common_ptr /*info*/) {}

/// Owns a decompressor; destroying one that was never filled does nothing.
class Decompressor {
 public:
  Decompressor() {
    info_.err = ::jpeg_std_error(&failure_.manager);
    failure_.manager.error_exit = fail;
    failure_.manager.emit_message = weigh;
    failure_.manager.output_message = stay_silent;
  }
  ~Decompressor() { ::jpeg_destroy_decompress(&info_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  /// Reads the header and chooses the colours. False: see why().
  bool open(std::string_view file);

  /// Decodes all rows to `into`, which holds height() * row_bytes(). False: see why().
  bool decode_rows(std::uint8_t* into);

  std::int64_t height() const { return info_.image_height; }
  std::int64_t width() const { return info_.image_width; }
  bool is_cmyk() const { return info_.out_color_space == JCS_CMYK; }
  std::int64_t components() const { return is_cmyk() ? 4 : 3; }
  const char* why() const { return failure_.text.data(); }

 private:
  jpeg_decompress_struct info_{};
  Failure failure_{};
};

bool Decompressor::open(std::string_view file) {
  if (setjmp(failure_.jump) != 0) return false;
  ::jpeg_create_decompress(&info_);
  ::jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  ::jpeg_read_header(&info_, TRUE);
  const bool has_four = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
  info_.out_color_space = has_four ? JCS_CMYK : JCS_RGB;
  return true;
}

bool Decompressor::decode_rows(std::uint8_t* into) {
  if (setjmp(failure_.jump) != 0) return false;
  ::jpeg_start_decompress(&info_);
  const auto row_bytes = static_cast<std::size_t>(width() * components());
  while (info_.output_scanline < info_.output_height) {
    JSAMPROW row = into + info_.output_scanline * row_bytes;
    ::jpeg_read_scanlines(&info_, &row, 1);
  }
  ::jpeg_finish_decompress(&info_);
  return true;
}

/// PIL's conversion: the product of two values from 0 to 255, divided by 255 and rounded.
std::uint8_t without_ink(int ink, int white) {
  const int product = ink * white + 128;
  return static_cast<std::uint8_t>(std::max(0, white - ((product >> 8) + product) / 256));
}

/// Adobe's files store 255 - ink.
std::vector<std::uint8_t> rgb_of_cmyk(const std::vector<std::uint8_t>& inverted) {
  std::vector<std::uint8_t> rgb;
  rgb.reserve(inverted.size() / 4 * 3);
  for (std::size_t at = 0; at + 3 < inverted.size(); at += 4) {
    const int white = inverted[at + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      rgb.push_back(without_ink(255 - inverted[at + c], white));
    }
  }
  return rgb;
}

Error refused(const char* why) {
  return make_error(Errc::kCorrupt, fmt::format("not a complete JPEG file: {}", why));
}

}  // namespace

Result<Image> decode_jpeg(std::string_view file) {
  Decompressor decompressor;
  if (!decompressor.open(file)) return refused(decompressor.why());
  Image image;
  image.size = {.height = decompressor.height(), .width = decompressor.width()};
  if (image.size.height * image.size.width > kPixelsMax) {
    return make_error(
        Errc::kLimit,
        fmt::format(
            "{} x {} pixels; the limit is {} in total",
            image.size.width,
            image.size.height,
            kPixelsMax));
  }
  const std::int64_t bytes = image.size.height * image.size.width * decompressor.components();
  image.pixels.resize(static_cast<std::size_t>(bytes));
  if (!decompressor.decode_rows(image.pixels.data())) return refused(decompressor.why());
  if (decompressor.is_cmyk()) image.pixels = rgb_of_cmyk(image.pixels);
  return image;
}

}  // namespace ddprun
