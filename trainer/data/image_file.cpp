#include "trainer/data/image_file.hpp"

#include "trainer/data/jpeg.hpp"
#include "trainer/data/png.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

namespace ddprun {
namespace {

/// The formats that are not decoded, although torchvision accepts their endings.
std::string_view format_of(std::string_view file) {
  struct Format {
    std::string_view magic;
    std::string_view name;
  };
  using namespace std::string_view_literals;
  static constexpr std::array<Format, 11> kFormats = {{
      {.magic = "GIF8"sv, .name = "GIF"},
      {.magic = "BM"sv, .name = "BMP"},
      {.magic = "II*\0"sv, .name = "TIFF"},
      {.magic = "MM\0*"sv, .name = "TIFF"},
      {.magic = "RIFF"sv, .name = "WebP"},
      {.magic = "P1"sv, .name = "PBM"},
      {.magic = "P2"sv, .name = "PGM"},
      {.magic = "P3"sv, .name = "PPM"},
      {.magic = "P4"sv, .name = "PBM"},
      {.magic = "P5"sv, .name = "PGM"},
      {.magic = "P6"sv, .name = "PPM"},
  }};
  for (const Format& format : kFormats) {
    if (file.starts_with(format.magic)) return format.name;
  }
  return {};
}

}  // namespace

Result<Image> decode_image(std::string_view file) {
  if (file.empty()) return make_error(Errc::kCorrupt, "the file is empty");
  if (file.starts_with("\x89PNG")) return decode_png(file);
  const std::string_view other = format_of(file);
  if (other.empty()) return decode_jpeg(file);
  return make_error(
      Errc::kCorrupt,
      fmt::format("a {} file, but only JPEG and PNG can be decoded; convert it", other));
}

}  // namespace ddprun
