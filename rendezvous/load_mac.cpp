#include "rendezvous/load_mac.hpp"

#include "base/check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <span>

#include <dlfcn.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/opensslv.h>

namespace ddprun {
namespace {

constexpr std::size_t kBytes = 32;

// The library whose headers this was compiled with.
constexpr const char* kLibrary = OPENSSL_VERSION_MAJOR == 3 ? "libcrypto.so.3" : "libcrypto.so";

}  // namespace

Result<Mac> load_mac(const std::string& key) {
  if (key.empty()) return Mac();
  // Never unloaded: OpenSSL registers functions that run at exit.
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  const auto find = [library](const char* name) {
    return library == nullptr ? nullptr : ::dlsym(library, name);
  };
  const auto hmac = reinterpret_cast<decltype(&HMAC)>(find("HMAC"));
  const auto sha256 = reinterpret_cast<decltype(&EVP_sha256)>(find("EVP_sha256"));
  if (hmac == nullptr || sha256 == nullptr) {
    const char* const why = ::dlerror();
    return make_error(
        Errc::kNotFound,
        fmt::format(
            "cannot load OpenSSL to authenticate nodes: {}; install the package libssl3",
            why == nullptr ? kLibrary : why));
  }
  return Mac([hmac, sha256, key](std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
    unsigned int size = 0;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
    const auto key_size = static_cast<int>(key.size());
    const auto* const made =
        hmac(sha256(), key.data(), key_size, bytes, text.size(), code.data(), &size);
    DDPRUN_CHECK(made != nullptr && size == kBytes);
    return fmt::format("{:02x}", fmt::join(std::span(code).first(kBytes), ""));
  });
}

}  // namespace ddprun
