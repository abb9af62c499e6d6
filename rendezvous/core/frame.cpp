#include "rendezvous/core/frame.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kOpeningBytes = 4;

using Opening = std::pair<std::string_view, Protocol>;

constexpr std::array<Opening, 12> kOpenings = {{
    {std::string_view("\0", 1), Protocol::kStore},
    {"\xDDRN", Protocol::kAgent},
    {"\xDDRL", Protocol::kLifeline},
    {"GET ", Protocol::kHttp},
    {"HEAD ", Protocol::kHttp},
    {"POST ", Protocol::kHttp},
    {"PUT ", Protocol::kHttp},
    {"DELETE ", Protocol::kHttp},
    {"OPTIONS ", Protocol::kHttp},
    {"PATCH ", Protocol::kHttp},
    {"TRACE ", Protocol::kHttp},
    {"CONNECT ", Protocol::kHttp},
}};

std::uint32_t length_in(std::string_view header) {
  std::uint32_t length = 0;
  for (const char byte : header.substr(0, kLengthBytes)) {
    length = (length << 8U) | static_cast<unsigned char>(byte);
  }
  return length;
}

}  // namespace

Protocol detect(std::string_view first_bytes) {
  for (const auto& [opening, protocol] : kOpenings) {
    if (first_bytes.starts_with(opening)) return protocol;
  }
  for (const auto& [opening, protocol] : kOpenings) {
    if (opening.starts_with(first_bytes)) return Protocol::kUndecided;
  }
  return Protocol::kUnknown;
}

std::string_view opening_of(Protocol protocol) {
  DDPRUN_CHECK(protocol == Protocol::kAgent || protocol == Protocol::kLifeline);
  static_assert(kAgentVersion == 5, "the last byte of both");
  return protocol == Protocol::kAgent ? "\xDDRN\x05" : "\xDDRL\x05";
}

Result<bool> check_opening(std::string_view opening) {
  if (opening.size() < kOpeningBytes) return false;
  const int version = static_cast<unsigned char>(opening[kOpeningBytes - 1]);
  if (version == kAgentVersion) return true;
  return make_error(
      Errc::kProtocol,
      fmt::format(
          "the caller speaks version {} of the agents' protocol, and the node that it called "
          "version {}; start the same ddprun on every node",
          version,
          kAgentVersion));
}

Result<void> append_frame(std::string& out, std::string_view body) {
  if (body.size() > kFrameBytesMax) {
    return make_error(
        Errc::kLimit,
        fmt::format("a message of {} bytes; the limit is {}", body.size(), kFrameBytesMax));
  }
  for (unsigned int shift = 32; shift > 0;) {
    shift -= 8;
    out += static_cast<char>((body.size() >> shift) & 0xFFU);
  }
  out += body;
  return {};
}

Result<std::optional<std::string_view>> FrameReader::next(std::string_view& input) {
  if (std::exchange(delivered_, false)) partial_.clear();
  const auto take = [&](std::size_t until) {
    const std::size_t taken = std::min(until - std::min(until, partial_.size()), input.size());
    partial_ += input.substr(0, taken);
    input.remove_prefix(taken);
  };
  // The usual frame is whole, and is read where it lies.
  if (!partial_.empty() || input.size() < kLengthBytes) take(kLengthBytes);
  const bool lies_whole = partial_.empty();
  const std::string_view header = lies_whole ? input : std::string_view(partial_);
  if (header.size() < kLengthBytes) return std::optional<std::string_view>();
  const std::size_t size = length_in(header);
  if (size > bytes_max_) {
    return make_error(
        Errc::kLimit, fmt::format("a frame of {} bytes; the limit is {}", size, bytes_max_));
  }
  const std::size_t whole = kLengthBytes + size;
  if (lies_whole && input.size() >= whole) {
    const std::string_view body = input.substr(kLengthBytes, size);
    input.remove_prefix(whole);
    return std::optional(body);
  }
  take(whole);
  if (partial_.size() < whole) return std::optional<std::string_view>();
  delivered_ = true;
  return std::optional(std::string_view(partial_).substr(kLengthBytes));
}

}  // namespace ddprun
