#include "base/libcrypto.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

#include <dlfcn.h>

namespace ddprun {
namespace {

constexpr std::array kNames = {"libcrypto.so.3", "libcrypto.so.1.1"};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// None if one of the functions is missing.
std::optional<Libcrypto> functions_of(void* library) {
  Libcrypto found;
  const bool has_all = find(library, "HMAC", found.hmac) && find(library, "EVP_md5", found.md5) &&
                       find(library, "EVP_sha256", found.sha256) &&
                       find(library, "EVP_MD_CTX_new", found.new_context) &&
                       find(library, "EVP_MD_CTX_free", found.free_context) &&
                       find(library, "EVP_DigestInit_ex", found.begin_digest) &&
                       find(library, "EVP_DigestUpdate", found.update_digest) &&
                       find(library, "EVP_DigestFinal_ex", found.finish_digest);
  return has_all ? std::optional(found) : std::nullopt;
}

Result<Libcrypto> load() {
  std::string why;
  for (const char* const name : kNames) {
    // Never unloaded: OpenSSL registers functions that run at exit.
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (const auto found = library == nullptr ? std::nullopt : functions_of(library)) return *found;
    const char* const reason = ::dlerror();
    if (why.empty()) why = reason == nullptr ? name : reason;
  }
  return make_error(
      Errc::kNotFound, fmt::format("cannot load OpenSSL: {}; install the package libssl3", why));
}

}  // namespace

Result<const Libcrypto*> load_libcrypto() {
  static const Result<Libcrypto> library = load();
  if (!library) return library.error();
  return &*library;
}

}  // namespace ddprun
