#include "bench/store_encoder.hpp"

#include <bit>

namespace ddprun {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

void StoreEncoder::validate() {
  put_op(StoreOp::kValidate);
  put_raw(&kStoreMagic, sizeof(kStoreMagic));
}

void StoreEncoder::ping(std::uint32_t nonce) {
  put_op(StoreOp::kPing);
  put_raw(&nonce, sizeof(nonce));
}

void StoreEncoder::add(std::string_view key, std::int64_t delta) {
  named(StoreOp::kAdd, key);
  put_raw(&delta, sizeof(delta));
}

void StoreEncoder::multi_set(std::span<const std::pair<std::string, std::string>> pairs) {
  put_op(StoreOp::kMultiSet);
  const auto count = static_cast<std::int64_t>(pairs.size());
  put_raw(&count, sizeof(count));
  for (const auto& [key, value] : pairs) {
    put_string(key);
    put_string(value);
  }
}

void StoreEncoder::named(StoreOp op, std::string_view key) {
  put_op(op);
  put_string(key);
}

void StoreEncoder::valued(StoreOp op, std::string_view key, std::string_view value) {
  named(op, key);
  put_string(value);
}

void StoreEncoder::listed(StoreOp op, std::span<const std::string> keys) {
  put_op(op);
  const std::uint64_t count = keys.size();
  put_raw(&count, sizeof(count));
  for (const std::string& key : keys) {
    put_string(key);
  }
}

void StoreEncoder::put_op(StoreOp op) {
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
