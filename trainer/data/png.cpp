#include "trainer/data/png.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <png.h>

namespace ddprun {
namespace {

/// libpng reports an error by a call that must not return, so it jumps: over frames of libpng and
/// of open() and decode_rows(), none of which owns anything.
struct Failure {
  std::jmp_buf jump;
  std::array<char, 200> text;  // all zeros at first, so that the kept text ends with one

  void keep(const char* why) { std::strncpy(text.data(), why, text.size() - 1); }
};

[[noreturn]] void fail(png_structp png, png_const_charp why) {
  auto* const failure = static_cast<Failure*>(::png_get_error_ptr(png));
  failure->keep(why);
  std::longjmp(failure->jump, 1);
}

/// Warnings concern chunks that do not affect pixels.
void stay_silent(png_structp /*png*/, png_const_charp /*why*/) {}

void read_more(png_structp png, png_bytep to, std::size_t bytes) {
  auto* const rest = static_cast<std::string_view*>(::png_get_io_ptr(png));
  if (rest->size() < bytes) ::png_error(png, "it ends early");
  std::memcpy(to, rest->data(), bytes);
  rest->remove_prefix(bytes);
}

using Palette = std::array<std::array<std::uint8_t, 3>, 256>;

/// Owns a decompressor and its input.
class Decompressor {
 public:
  explicit Decompressor(std::string_view file) : rest_(file) {}
  ~Decompressor() { ::png_destroy_read_struct(&png_, &info_, nullptr); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  /// Reads everything before the pixels, and chooses their format. False: see why().
  bool open();

  /// Decodes all rows, and reads what follows them. False: see why(). REQUIRES: open() succeeded;
  /// `rows` are height() pointers to row_bytes() bytes each.
  bool decode_rows(std::vector<png_bytep>& rows);

  std::int64_t height() const { return ::png_get_image_height(png_, info_); }
  std::int64_t width() const { return ::png_get_image_width(png_, info_); }
  std::size_t row_bytes() const { return ::png_get_rowbytes(png_, info_); }
  int color_type() const { return ::png_get_color_type(png_, info_); }
  /// Bits of a grey pixel; all other formats have 8.
  int grey_bits() const { return grey_bits_; }
  /// Entries missing in the file are black.
  Palette palette() const;
  const char* why() const { return failure_.text.data(); }

 private:
  std::string_view rest_;
  Failure failure_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int grey_bits_ = 0;
};

bool Decompressor::open() {
  if (setjmp(failure_.jump) != 0) return false;
  png_ = ::png_create_read_struct(PNG_LIBPNG_VER_STRING, &failure_, fail, stay_silent);
  info_ = png_ == nullptr ? nullptr : ::png_create_info_struct(png_);
  if (info_ == nullptr) {
    failure_.keep("out of memory");
    return false;
  }
  ::png_set_read_fn(png_, &rest_, read_more);
  // Texts, profiles and similar chunks are not even decompressed.
  ::png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  ::png_set_benign_errors(png_, 1);
  ::png_read_info(png_, info_);
  grey_bits_ = ::png_get_bit_depth(png_, info_);
  if (color_type() != PNG_COLOR_TYPE_GRAY) ::png_set_strip_16(png_);
  ::png_set_packing(png_);
  ::png_set_interlace_handling(png_);
  ::png_read_update_info(png_, info_);
  return true;
}

bool Decompressor::decode_rows(std::vector<png_bytep>& rows) {
  if (setjmp(failure_.jump) != 0) return false;
  ::png_read_image(png_, rows.data());
  ::png_read_end(png_, nullptr);
  return true;
}

Palette Decompressor::palette() const {
  Palette palette{};
  png_colorp colors = nullptr;
  int count = 0;
  ::png_get_PLTE(png_, info_, &colors, &count);
  for (int i = 0; i < count; ++i) {
    palette[static_cast<std::size_t>(i)] = {colors[i].red, colors[i].green, colors[i].blue};
  }
  return palette;
}

/// The 8-bit grey value of the `bits` at `raw`.
std::uint8_t grey_of(const std::uint8_t* raw, int bits) {
  constexpr int kMost = 255;
  if (bits == 16) return raw[0] == 0 ? raw[1] : std::uint8_t{kMost};
  return static_cast<std::uint8_t>(raw[0] * (kMost / ((1 << bits) - 1)));
}

/// Converts other formats from libpng to RGB. `raw` consists of whole pixels.
std::vector<std::uint8_t> rgb_of(const Decompressor& image, const std::vector<std::uint8_t>& raw) {
  const auto pixels = static_cast<std::size_t>(image.height() * image.width());
  const std::size_t step = raw.size() / pixels;
  const bool is_colored = (image.color_type() & PNG_COLOR_MASK_COLOR) != 0;
  const bool has_palette = (image.color_type() & PNG_COLOR_MASK_PALETTE) != 0;
  const int grey_bits = image.color_type() == PNG_COLOR_TYPE_GRAY ? image.grey_bits() : 8;
  const Palette palette = has_palette ? image.palette() : Palette{};
  std::vector<std::uint8_t> rgb;
  rgb.reserve(pixels * 3);
  for (std::size_t at = 0; at < raw.size(); at += step) {
    if (has_palette) {
      rgb.insert(rgb.end(), palette[raw[at]].begin(), palette[raw[at]].end());
    } else if (is_colored) {
      rgb.insert(rgb.end(), &raw[at], &raw[at] + 3);
    } else {
      rgb.insert(rgb.end(), 3, grey_of(&raw[at], grey_bits));
    }
  }
  return rgb;
}

Error refused(const char* why) {
  return make_error(Errc::kCorrupt, fmt::format("not a complete PNG file: {}", why));
}

}  // namespace

Result<Image> decode_png(std::string_view file) {
  Decompressor decompressor(file);
  if (!decompressor.open()) return refused(decompressor.why());
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
  std::vector<std::uint8_t> raw(
      static_cast<std::size_t>(image.size.height) * decompressor.row_bytes());
  std::vector<png_bytep> rows(static_cast<std::size_t>(image.size.height));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows[row] = raw.data() + row * decompressor.row_bytes();
  }
  if (!decompressor.decode_rows(rows)) return refused(decompressor.why());
  const bool is_ready = decompressor.color_type() == PNG_COLOR_TYPE_RGB;
  image.pixels = is_ready ? std::move(raw) : rgb_of(decompressor, raw);
  return image;
}

}  // namespace ddprun
