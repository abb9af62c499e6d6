#include "trainer/data/imagenet_tars.hpp"

#include "base/file.hpp"
#include "base/quiet_thread.hpp"
#include "trainer/core/imagenet.hpp"
#include "trainer/idx_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include <sys/stat.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

using Entries = std::vector<TarEntry>;

/// An image, and its position in the archive. The path is `class/name`, as in unpacked folders.
struct Member {
  std::string path;
  FilePart part;
};

std::string where(const fs::path& path) {
  return "--data-dir " + path.string();
}

FilePart part_of(const TarEntry& entry) {
  return {.offset = entry.offset, .bytes = entry.bytes};
}

struct OpenTar {
  Descriptor file;
  Entries entries;
};

Result<OpenTar> open_tar(const fs::path& path) {
  auto file = open_regular(path);
  if (!file) return with_context("--data-dir", file.error());
  struct stat about {};
  if (::fstat(file->get(), &about) != 0) return make_errno_error(errno, where(path));
  auto entries = list_tar(file->get(), {.offset = 0, .bytes = about.st_size});
  if (!entries) return with_context(where(path), entries.error());
  return OpenTar{.file = *std::move(file), .entries = *std::move(entries)};
}

/// Labels the members and sorts them.
Result<ArchivedImages> labelled(
    Descriptor archive, std::vector<std::string> classes, const std::vector<Member>& members) {
  std::vector<std::string> paths;
  std::unordered_map<std::string_view, FilePart> parts;
  paths.reserve(members.size());
  for (const Member& member : members) {
    paths.push_back(member.path);
    parts.emplace(member.path, member.part);
  }
  auto found = label_by_folder(std::move(classes), paths);
  if (!found) return found.error();
  ArchivedImages images{.archive = std::move(archive), .labelled = *std::move(found), .parts = {}};
  images.parts.reserve(images.labelled.files.size());
  for (const LabelledFile& file : images.labelled.files) {
    images.parts.push_back(parts.at(file.path));
  }
  return images;
}

/// Lists archives within an archive. Each header is a separate read. A parallel file system answers
/// reads late, but many at the same time.
std::vector<Result<Entries>> list_inner(int descriptor, const Entries& archives) {
  constexpr std::size_t kThreadsMax = 16;
  std::vector<Result<Entries>> listed(archives.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t at = next++; at < archives.size(); at = next++) {
      listed[at] = list_tar(descriptor, part_of(archives[at]));
    }
  };
  std::vector<std::thread> others(std::min(kThreadsMax, archives.size()) - 1);
  for (std::thread& thread : others) {
    // If no further thread is allowed, the existing ones do the work.
    if (!start_quiet_thread(thread, "cannot start a thread that reads an archive", work)) break;
  }
  work();
  for (std::thread& thread : others) {
    if (thread.joinable()) thread.join();
  }
  return listed;
}

/// A file of the devkit, found by the end of its path.
Result<std::string> devkit_file(
    const std::string& devkit, const Entries& entries, std::string_view name) {
  const auto found = std::ranges::find_if(entries, [name](const TarEntry& entry) {
    return !entry.is_directory && entry.path.ends_with(name);
  });
  if (found == entries.end()) {
    return make_error(Errc::kNotFound, fmt::format("it does not contain {}", name));
  }
  return devkit.substr(
      static_cast<std::size_t>(found->offset), static_cast<std::size_t>(found->bytes));
}

Result<std::vector<std::string>> read_devkit(const fs::path& path) {
  const auto devkit = read_data_file(path);
  if (!devkit) {
    Error error = devkit.error();
    if (error.is(Errc::kNotFound)) {
      error.detail += "; put the devkit there, which has the classes of the validation images";
    }
    return error;
  }
  const auto entries = list_tar(*devkit);
  if (!entries) return with_context(path.string(), entries.error());
  const auto meta = devkit_file(*devkit, *entries, kImagenetMeta);
  if (!meta) return with_context(path.string(), meta.error());
  const auto truth = devkit_file(*devkit, *entries, kImagenetTruth);
  if (!truth) return with_context(path.string(), truth.error());
  auto classes = imagenet_validation_classes(*meta, *truth);
  if (!classes) return with_context(path.string(), classes.error());
  return classes;
}

}  // namespace

Result<ArchivedImages> open_imagenet_train(const fs::path& tar) {
  auto outer = open_tar(tar);
  if (!outer) return outer.error();
  constexpr std::string_view kTarEnding = ".tar";
  std::erase_if(outer->entries, [kTarEnding](const TarEntry& entry) {
    return entry.is_directory || !entry.path.ends_with(kTarEnding);
  });
  if (outer->entries.empty()) {
    return make_error(
        Errc::kNotFound, where(tar) + ": it contains no archive of a class, such as n01440764.tar");
  }
  std::vector<Result<Entries>> inner = list_inner(outer->file.get(), outer->entries);
  std::vector<std::string> classes;
  std::vector<Member> members;
  for (std::size_t at = 0; at < inner.size(); ++at) {
    const fs::path path = outer->entries[at].path;
    if (!inner[at]) return with_context(where(tar / path), inner[at].error());
    classes.push_back(path.stem());
    for (const TarEntry& entry : *inner[at]) {
      if (entry.is_directory) continue;
      members.push_back(
          {.path = fmt::format("{}/{}", classes.back(), entry.path), .part = part_of(entry)});
    }
    inner[at] = Entries();  // a million names need not be stored twice
  }
  auto images = labelled(std::move(outer->file), std::move(classes), members);
  if (!images) return with_context(where(tar), images.error());
  return images;
}

Result<ArchivedImages> open_imagenet_val(const fs::path& tar, const fs::path& devkit) {
  auto archive = open_tar(tar);
  if (!archive) return archive.error();
  std::erase_if(archive->entries, [](const TarEntry& entry) {
    return entry.is_directory || !has_image_ending(entry.path);
  });
  std::ranges::sort(archive->entries, {}, &TarEntry::path);
  auto classes = read_devkit(devkit);
  if (!classes) return with_context("--data-dir", classes.error());
  if (classes->size() != archive->entries.size()) {
    return make_error(
        Errc::kCorrupt,
        fmt::format(
            "{}: {} images, but {} has the classes of {}",
            where(tar),
            archive->entries.size(),
            devkit.string(),
            classes->size()));
  }
  std::vector<Member> members;
  for (std::size_t at = 0; at < classes->size(); ++at) {
    const TarEntry& entry = archive->entries[at];
    members.push_back(
        {.path = fmt::format("{}/{}", (*classes)[at], fs::path(entry.path).filename().string()),
         .part = part_of(entry)});
  }
  auto images = labelled(std::move(archive->file), *std::move(classes), members);
  if (!images) return with_context(where(tar), images.error());
  return images;
}

}  // namespace ddprun
