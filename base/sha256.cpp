#include "base/sha256.hpp"

#include "base/check.hpp"

#include <openssl/evp.h>

namespace ddprun {

struct Sha256::State {
  State() { DDPRUN_CHECK(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1); }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{
      EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  DDPRUN_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

Sha256::Digest Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int size = 0;
  DDPRUN_CHECK(EVP_DigestFinal_ex(state_->context.get(), raw.data(), &size) == 1);
  Digest digest{};
  DDPRUN_CHECK(size == digest.size());
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = std::byte{raw[i]};
  }
  return digest;
}

std::string Sha256::finish_hex() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : finish()) {
    hex += kDigits[std::to_integer<std::size_t>(byte >> 4U)];
    hex += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return hex;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.add(bytes);
  return sha.finish_hex();
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}

}  // namespace ddprun
