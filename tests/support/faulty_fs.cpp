// A library to preload: records or breaks the file system operations of a process.
//
// It acts on the files that the process creates below DDPRUN_FAULT_ROOT, an existing directory.
// Each change (create, write, sync, rename, remove) is one operation, counted from 1.
//
//   DDPRUN_FAULT_LOG=FILE      records every operation (fault_log.hpp)
//   DDPRUN_FAULT_STOP_AT=N     stops the process (SIGSTOP) just before operation N
//   DDPRUN_FAULT_FULL_AT=N     the disk is full from operation N on
//   DDPRUN_FAULT_NO_SYNC=files|directories   syncing these does nothing, but reports success
//
// The process must have one thread.

#include "tests/support/fault_log.hpp"

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));  // NOLINT
}

std::uint64_t number_from(const char* variable) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

std::string text_from(const char* variable) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? "" : text;
}

std::uint64_t node_of(const char* path) {
  struct stat status {};
  return ::lstat(path, &status) == 0 ? status.st_ino : 0;
}

std::uint64_t node_of(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

/// The entry to which a path refers.
struct Entry {
  std::uint64_t parent = 0;
  std::string name;
};

Entry entry_of(int directory, const char* path) {
  const std::string text(path);
  const std::size_t slash = text.rfind('/');
  if (slash != std::string::npos) {
    return {.parent = node_of(text.substr(0, slash).c_str()), .name = text.substr(slash + 1)};
  }
  return {.parent = directory == AT_FDCWD ? node_of(".") : node_of(directory), .name = text};
}

class Watch {
 public:
  Watch() {
    directories_.insert(node_of(text_from("DDPRUN_FAULT_ROOT").c_str()));
    const std::string log = text_from("DDPRUN_FAULT_LOG");
    if (!log.empty()) {
      log_ = real<int(const char*, int, ...)>("open")(
          log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    }
  }

  bool has_directory(std::uint64_t node) const { return directories_.contains(node); }
  bool has_file(std::uint64_t node) const { return files_.contains(node); }
  void add_directory(std::uint64_t node) { directories_.insert(node); }
  void add_file(std::uint64_t node) { files_.insert(node); }

  bool loses_syncs_of(std::string_view what) const { return no_sync_ == what; }

  /// Called before each operation. False if the disk is full.
  bool proceed(bool needs_space) {
    ++operations_;
    if (operations_ == stop_at_) ::raise(SIGSTOP);
    if (!needs_space || full_at_ == 0 || operations_ < full_at_) return true;
    errno = ENOSPC;
    return false;
  }

  void record(FaultRecord record, std::string_view name, std::string_view data) const {
    if (log_ < 0) return;
    record.name_bytes = static_cast<std::uint32_t>(name.size());
    record.data_bytes = data.size();
    put({reinterpret_cast<const char*>(&record), sizeof record});  // NOLINT
    put(name);
    put(data);
  }

 private:
  void put(std::string_view bytes) const {
    auto* const write = real<ssize_t(int, const void*, std::size_t)>("write");
    while (!bytes.empty()) {
      const ssize_t written = write(log_, bytes.data(), bytes.size());
      if (written < 0) std::abort();
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  std::set<std::uint64_t> directories_;
  std::set<std::uint64_t> files_;
  int log_ = -1;
  std::uint64_t operations_ = 0;
  std::uint64_t stop_at_ = number_from("DDPRUN_FAULT_STOP_AT");
  std::uint64_t full_at_ = number_from("DDPRUN_FAULT_FULL_AT");
  std::string no_sync_ = text_from("DDPRUN_FAULT_NO_SYNC");
};

Watch& watch() {
  static Watch the_watch;
  return the_watch;
}

int open_watched(const char* name, const char* path, int flags, mode_t mode) {
  auto* const open = real<int(const char*, int, ...)>(name);
  if ((flags & O_CREAT) == 0) return open(path, flags, mode);
  const Entry entry = entry_of(AT_FDCWD, path);
  const bool ours = watch().has_directory(entry.parent) && node_of(path) == 0;
  if (ours && !watch().proceed(true)) return -1;
  const int opened = open(path, flags, mode);
  if (!ours || opened < 0) return opened;
  const std::uint64_t node = node_of(opened);
  watch().add_file(node);
  watch().record({.op = FaultOp::kMakeFile, .node = node, .parent = entry.parent}, entry.name, "");
  return opened;
}

int sync_watched(const char* name, int descriptor) {
  auto* const sync = real<int(int)>(name);
  const std::uint64_t node = node_of(descriptor);
  const bool directory = watch().has_directory(node);
  if (!directory && !watch().has_file(node)) return sync(descriptor);
  if (!watch().proceed(true)) return -1;
  if (watch().loses_syncs_of(directory ? "directories" : "files")) return 0;
  const int result = sync(descriptor);
  if (result == 0) watch().record({.op = FaultOp::kSync, .node = node}, "", "");
  return result;
}

template <class Remove>
int remove_watched(int directory, const char* path, Remove remove) {
  const Entry entry = entry_of(directory, path);
  if (!watch().has_directory(entry.parent)) return remove();
  watch().proceed(false);
  const int result = remove();
  if (result == 0) {
    watch().record({.op = FaultOp::kRemove, .parent = entry.parent}, entry.name, "");
  }
  return result;
}

}  // namespace
}  // namespace ddprun

using ddprun::Entry;
using ddprun::FaultOp;
using ddprun::real;
using ddprun::watch;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return ddprun::open_watched("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return ddprun::open_watched("open64", path, flags, mode);
}

ssize_t write(int descriptor, const void* data, size_t size) {
  auto* const write = real<ssize_t(int, const void*, size_t)>("write");
  const auto bytes = [data](ssize_t written) {
    return std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(written));
  };
  const std::uint64_t node = ddprun::node_of(descriptor);
  const bool ours = watch().has_file(node);
  if (ours && !watch().proceed(true)) return -1;
  const off_t offset = ours ? ::lseek(descriptor, 0, SEEK_CUR) : 0;
  const ssize_t written = write(descriptor, data, size);
  if (written < 0) return written;
  if (ours) {
    watch().record(
        {.op = FaultOp::kWrite, .node = node, .offset = static_cast<std::uint64_t>(offset)},
        "",
        bytes(written));
  } else if (descriptor == STDOUT_FILENO) {
    watch().record({.op = FaultOp::kSaid}, "", bytes(written));
  }
  return written;
}

int fsync(int descriptor) {
  return ddprun::sync_watched("fsync", descriptor);
}

int fdatasync(int descriptor) {
  return ddprun::sync_watched("fdatasync", descriptor);
}

int mkdir(const char* path, mode_t mode) {
  auto* const mkdir = real<int(const char*, mode_t)>("mkdir");
  const Entry entry = ddprun::entry_of(AT_FDCWD, path);
  if (!watch().has_directory(entry.parent)) return mkdir(path, mode);
  if (!watch().proceed(true)) return -1;
  const int result = mkdir(path, mode);
  if (result != 0) return result;
  const std::uint64_t node = ddprun::node_of(path);
  watch().add_directory(node);
  watch().record(
      {.op = FaultOp::kMakeDirectory, .node = node, .parent = entry.parent}, entry.name, "");
  return 0;
}

int rename(const char* from, const char* to) noexcept {
  auto* const rename = real<int(const char*, const char*)>("rename");
  const Entry old_entry = ddprun::entry_of(AT_FDCWD, from);
  const Entry new_entry = ddprun::entry_of(AT_FDCWD, to);
  if (!watch().has_directory(old_entry.parent)) return rename(from, to);
  watch().proceed(false);
  const int result = rename(from, to);
  if (result == 0) {
    watch().record(
        {.op = FaultOp::kRename, .node = new_entry.parent, .parent = old_entry.parent},
        old_entry.name,
        new_entry.name);
  }
  return result;
}

int unlink(const char* path) noexcept {
  auto* const unlink = real<int(const char*)>("unlink");
  return ddprun::remove_watched(AT_FDCWD, path, [&] { return unlink(path); });
}

int rmdir(const char* path) noexcept {
  auto* const rmdir = real<int(const char*)>("rmdir");
  return ddprun::remove_watched(AT_FDCWD, path, [&] { return rmdir(path); });
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  auto* const unlinkat = real<int(int, const char*, int)>("unlinkat");
  return ddprun::remove_watched(directory, path, [&] { return unlinkat(directory, path, flags); });
}

int remove(const char* path) noexcept {
  auto* const remove = real<int(const char*)>("remove");
  return ddprun::remove_watched(AT_FDCWD, path, [&] { return remove(path); });
}

}  // extern "C"
