#include "rendezvous/load_mac.hpp"

#include "base/check.hpp"
#include "base/libcrypto.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <span>

namespace ddprun {

Result<Mac> load_mac(const std::string& key) {
  constexpr std::size_t kBytes = 32;
  if (key.empty()) return Mac();
  const auto loaded = load_libcrypto();
  if (!loaded) return with_context("to authenticate nodes", loaded.error());
  return Mac([openssl = *loaded, key](std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
    unsigned int size = 0;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
    const auto key_size = static_cast<int>(key.size());
    const auto* const made = openssl->hmac(
        openssl->sha256(), key.data(), key_size, bytes, text.size(), code.data(), &size);
    DDPRUN_CHECK(made != nullptr && size == kBytes);
    return fmt::format("{:02x}", fmt::join(std::span(code).first(kBytes), ""));
  });
}

}  // namespace ddprun
