#include "base/digest.hpp"

#include "base/check.hpp"
#include "base/libcrypto.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <stdexcept>

namespace ddprun {
namespace {

const Libcrypto& libcrypto() {
  const auto loaded = load_libcrypto();
  if (!loaded) throw std::runtime_error(loaded.error().detail);
  return **loaded;
}

}  // namespace

struct Digest::State {
  explicit State(DigestKind kind) {
    const EVP_MD* const method = kind == DigestKind::kMd5 ? openssl.md5() : openssl.sha256();
    DDPRUN_CHECK(openssl.begin_digest(context.get(), method, nullptr) == 1);
  }

  const Libcrypto& openssl = libcrypto();
  std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)> context{
      openssl.new_context(), openssl.free_context};
};

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>(kind)) {}

Digest::~Digest() = default;

void Digest::add(std::span<const std::byte> bytes) {
  DDPRUN_CHECK(
      state_->openssl.update_digest(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

std::string Digest::finish_hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int size = 0;
  DDPRUN_CHECK(state_->openssl.finish_digest(state_->context.get(), raw.data(), &size) == 1);
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
