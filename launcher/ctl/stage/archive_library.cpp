#include "launcher/ctl/stage/archive_library.hpp"

#include "base/format_error.hpp"

#include <string>

#include <dlfcn.h>

namespace ddprun {
namespace {

constexpr const char* kLibrary = "libarchive.so.13";

}  // namespace

ArchiveLibrary::ArchiveLibrary()
    : library_(::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL)), has_all_(library_ != nullptr) {}

ArchiveLibrary::Symbol ArchiveLibrary::function(const char* name) {
  if (!has_all_) return {nullptr};
  void* const address = ::dlsym(library_, name);
  has_all_ = address != nullptr;
  return {address};
}

Result<ArchiveLibrary> ArchiveLibrary::load() {
  const ArchiveLibrary loaded;
  if (loaded.has_all_) return loaded;
  const char* const why = ::dlerror();
  return format_error(
      Errc::kNotFound,
      "cannot load libarchive: {}; install the package libarchive13",
      why == nullptr ? kLibrary : why);
}

}  // namespace ddprun
