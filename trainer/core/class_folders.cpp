#include "trainer/core/class_folders.hpp"

#include "base/parse.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

namespace ddprun {
namespace {

constexpr char kEmptyRemedy[] =
    "; put images there, remove the folder, or name another directory with --data-dir";

std::string_view folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return path.substr(0, slash == std::string_view::npos ? 0 : slash);
}

std::string_view name_of_file(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

void sort_names(std::vector<std::string>& names) {
  std::ranges::sort(names);
  const auto rest = std::ranges::unique(names);
  names.erase(rest.begin(), rest.end());
}

/// The index of `name` in the sorted `names`.
std::optional<std::int64_t> place_of(const std::vector<std::string>& names, std::string_view name) {
  const auto found = std::ranges::lower_bound(names, name);
  if (found == names.end() || *found != name) return std::nullopt;
  return found - names.begin();
}

/// Python compares names by code point, which for UTF-8 is the order of the bytes.
void sort_samples(std::vector<LabelledFile>& files) {
  std::ranges::sort(files, {}, [](const LabelledFile& file) {
    return std::tuple(file.label, folder_of(file.path), name_of_file(file.path));
  });
}

Result<void> check_no_class_is_empty(const LabelledFiles& found) {
  std::vector<bool> is_filled(found.classes.size());
  for (const LabelledFile& file : found.files) {
    is_filled[static_cast<std::size_t>(file.label)] = true;
  }
  constexpr std::size_t kNamesMax = 5;
  std::vector<std::string> empty;
  for (std::size_t label = 0; label < is_filled.size() && empty.size() < kNamesMax; ++label) {
    if (!is_filled[label]) empty.push_back(found.classes[label]);
  }
  if (empty.empty()) return {};
  return make_error(
      Errc::kNotFound,
      fmt::format(
          "no image in the class folder{} {}{}",
          empty.size() > 1 ? "s" : "",
          fmt::join(empty, ", "),
          kEmptyRemedy));
}

}  // namespace

bool has_image_ending(std::string_view path) {
  static constexpr std::array<std::string_view, 9> kEndings = {
      ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::any_of(kEndings, [&](std::string_view ending) {
    if (path.size() < ending.size()) return false;
    return std::ranges::equal(path.substr(path.size() - ending.size()), ending, {}, lower);
  });
}

Result<LabelledFiles> label_by_folder(
    std::vector<std::string> classes, const std::vector<std::string>& paths) {
  LabelledFiles found{.classes = std::move(classes), .files = {}};
  sort_names(found.classes);
  if (found.classes.empty()) {
    return make_error(Errc::kNotFound, fmt::format("it contains no class folder{}", kEmptyRemedy));
  }
  for (const std::string& path : paths) {
    const std::size_t slash = path.find('/');
    if (slash == std::string::npos || !has_image_ending(path)) continue;
    const auto label = place_of(found.classes, std::string_view(path).substr(0, slash));
    if (label) found.files.push_back({.path = path, .label = *label});
  }
  auto const good = check_no_class_is_empty(found);
  if (!good) return good.error();
  sort_samples(found.files);
  return found;
}

Result<LabelledFiles> label_by_annotations(
    std::vector<std::string> classes,
    const std::vector<std::string>& paths,
    std::string_view annotations) {
  LabelledFiles found{.classes = std::move(classes), .files = {}};
  sort_names(found.classes);
  std::vector<std::string> there = paths;
  std::ranges::sort(there);

  std::size_t number = 0;
  for (const std::string_view line : split(annotations, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const std::vector<std::string_view> fields = split(line, '\t');
    const auto label = fields.size() < 2 ? std::nullopt : place_of(found.classes, trim(fields[1]));
    if (!label) {
      return make_error(
          Errc::kCorrupt,
          fmt::format(
              "line {} has {}",
              number,
              fields.size() < 2
                  ? "no two fields separated by a tab"
                  : fmt::format("the class '{}', which is not in the train folder", fields[1])));
    }
    std::string path = fmt::format("images/{}", fields[0]);
    if (!place_of(there, path)) {
      return make_error(
          Errc::kNotFound, fmt::format("line {} names {}, which does not exist", number, path));
    }
    found.files.push_back({.path = std::move(path), .label = *label});
  }
  if (found.files.empty()) return make_error(Errc::kNotFound, "it lists no files");
  sort_samples(found.files);
  return found;
}

}  // namespace ddprun
