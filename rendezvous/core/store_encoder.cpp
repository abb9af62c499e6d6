#include "rendezvous/core/store_encoder.hpp"

#include <bit>

namespace ddprun {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

void StoreEncoder::validate() {
  bare(StoreOp::kValidate);
  put_raw(&kStoreMagic, sizeof(kStoreMagic));
}

void StoreEncoder::ping(std::uint32_t nonce) {
  bare(StoreOp::kPing);
  put_raw(&nonce, sizeof(nonce));
}

void StoreEncoder::add(std::string_view key, std::int64_t delta) {
  named(StoreOp::kAdd, key);
  put_raw(&delta, sizeof(delta));
}

void StoreEncoder::compare_set(
    std::string_view key, std::string_view expected, std::string_view desired) {
  valued(StoreOp::kCompareSet, key, expected);
  put_string(desired);
}

void StoreEncoder::multi_set(std::span<const std::pair<std::string, std::string>> pairs) {
  bare(StoreOp::kMultiSet);
  const auto count = static_cast<std::int64_t>(pairs.size());
  put_raw(&count, sizeof(count));
  for (const auto& [key, value] : pairs) {
    put_string(key);
    put_string(value);
  }
}

void StoreEncoder::named(StoreOp op, std::string_view key) {
  bare(op);
  put_string(key);
}

void StoreEncoder::valued(StoreOp op, std::string_view key, std::string_view value) {
  named(op, key);
  put_string(value);
}

void StoreEncoder::listed(StoreOp op, std::span<const std::string> keys) {
  bare(op);
  const std::uint64_t count = keys.size();
  put_raw(&count, sizeof(count));
  for (const std::string& key : keys) {
    put_string(key);
  }
}

void StoreEncoder::bare(StoreOp op) {
  bytes_.push_back(static_cast<char>(op));
}

void StoreEncoder::put_raw(const void* data, std::size_t size) {
  bytes_.append(static_cast<const char*>(data), size);
}

void StoreEncoder::put_string(std::string_view text) {
  const std::uint64_t length = text.size();
  put_raw(&length, sizeof(length));
  bytes_.append(text);
}

}  // namespace ddprun
