#include "trainer/data/token_windows.hpp"

#include "base/check.hpp"
#include "base/file.hpp"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace ddprun {

static_assert(std::endian::native == std::endian::little, "the file is mapped as it is");

Result<TokenWindows> TokenWindows::open(const std::string& path, const Options& options) {
  DDPRUN_CHECK(options.length >= 1);
  const auto file = open_regular(path);
  if (!file) return file.error();
  struct stat about {};
  if (::fstat(file->get(), &about) != 0) return make_errno_error(errno, path);
  const auto width = static_cast<std::int64_t>(options.width);
  if (about.st_size % width != 0) {
    return make_error(
        Errc::kCorrupt,
        fmt::format(
            "{}: {} bytes are not a multiple of the token width {}; give the right width, or a "
            "complete file",
            path,
            about.st_size,
            width));
  }
  const std::int64_t tokens = about.st_size / width;
  if (tokens <= options.length) {
    return make_error(
        Errc::kCorrupt,
        fmt::format(
            "{}: {} tokens are fewer than a window of {} and its last target; use shorter windows",
            path,
            tokens,
            options.length));
  }
  const auto type = options.width == Width::kUint16 ? torch::kUInt16 : torch::kUInt32;
  return TokenWindows(path, options, torch::from_file(path, /*shared=*/false, tokens, type));
}

Result<TokenWindows::Batch> TokenWindows::read(std::span<const std::int64_t> windows) const {
  const std::int64_t length = options_.length;
  std::vector<torch::Tensor> rows;
  rows.reserve(windows.size());
  for (const std::int64_t window : windows) {
    DDPRUN_CHECK(window >= 0 && window < size());
    const std::int64_t first = window * length;
    rows.push_back(tokens_.slice(0, first, first + length + 1).to(torch::kInt64));
    if (!options_.vocabulary) continue;
    const auto place = rows.back().argmax().item<std::int64_t>();
    const auto token = rows.back()[place].item<std::int64_t>();
    if (token < *options_.vocabulary) continue;
    return make_error(
        Errc::kCorrupt,
        fmt::format(
            "{}: token {} is {}, but the vocabulary has {}; give the right vocabulary or width",
            path_,
            first + place,
            token,
            *options_.vocabulary));
  }
  const torch::Tensor all = torch::stack(rows);
  return Batch{
      .inputs = all.slice(1, 0, length).contiguous(), .targets = all.slice(1, 1).contiguous()};
}

}  // namespace ddprun
