#pragma once

// Small image files for the tests of the data code.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <jpeglib.h>
#include <stdio.h>   // NOLINT(modernize-deprecated-headers): before jpeglib.h, which needs FILE
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp is POSIX

namespace ddprun {

/// An image with an edge in it, as a JPEG file. Each `seed` gives another image.
inline std::string jpeg_of(int width, int height, int channels, int seed) {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        pixels.push_back(static_cast<std::uint8_t>((x * 7 + y * 3 + c * 50 + seed * 31) % 256));
      }
    }
  }
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = ::jpeg_std_error(&errors);
  ::jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;  // NOLINT(google-runtime-int): libjpeg's type
  ::jpeg_mem_dest(&info, &memory, &bytes);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  ::jpeg_set_defaults(&info);
  ::jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + static_cast<std::size_t>(info.next_scanline) *
                                       static_cast<std::size_t>(width * channels);
    ::jpeg_write_scanlines(&info, &row, 1);
  }
  ::jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<const char*>(memory), bytes);
  ::jpeg_destroy_compress(&info);
  ::free(memory);
  return file;
}

/// A fresh directory, removed with its content.
class DataDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "ddprun_data_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << content;
    return root_ / name;
  }

  std::filesystem::path root_;
};

}  // namespace ddprun
