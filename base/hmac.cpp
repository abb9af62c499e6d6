#include "base/hmac.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <array>

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

Result<HmacSha256> HmacSha256::load() {
  HmacSha256 loaded;
  // Never unloaded: OpenSSL registers functions that run at exit.
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) {
    loaded.hmac_ = ::dlsym(library, "HMAC");
    loaded.sha256_ = ::dlsym(library, "EVP_sha256");
  }
  if (loaded.hmac_ == nullptr || loaded.sha256_ == nullptr) {
    const char* const why = ::dlerror();
    return make_error(
        Errc::kNotFound,
        fmt::format(
            "cannot load OpenSSL for the secret: {}; install the package libssl3",
            why == nullptr ? kLibrary : why));
  }
  return loaded;
}

std::string HmacSha256::operator()(std::string_view key, std::string_view text) const {
  const auto hmac = reinterpret_cast<decltype(&HMAC)>(hmac_);
  const auto sha256 = reinterpret_cast<decltype(&EVP_sha256)>(sha256_);
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned int size = 0;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const made = hmac(
      sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(), code.data(), &size);
  DDPRUN_CHECK(made != nullptr && size == kBytes);
  std::string hex;
  for (std::size_t i = 0; i < kBytes; ++i) {
    fmt::format_to(std::back_inserter(hex), "{:02x}", code[i]);
  }
  return hex;
}

}  // namespace ddprun
