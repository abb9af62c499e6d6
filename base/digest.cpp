#include "base/digest.hpp"

#include "base/check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include <openssl/evp.h>

namespace ddprun {

struct Digest::State {
  explicit State(const EVP_MD* kind) {
    DDPRUN_CHECK(EVP_DigestInit_ex(context.get(), kind, nullptr) == 1);
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{
      EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Digest::Digest(DigestKind kind)
    : state_(std::make_unique<State>(kind == DigestKind::kMd5 ? EVP_md5() : EVP_sha256())) {}

Digest::~Digest() = default;

void Digest::add(std::span<const std::byte> bytes) {
  DDPRUN_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

std::string Digest::finish_hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int size = 0;
  DDPRUN_CHECK(EVP_DigestFinal_ex(state_->context.get(), raw.data(), &size) == 1);
  return fmt::format("{:02x}", fmt::join(std::span(raw).first(size), ""));
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
