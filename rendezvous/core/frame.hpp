#pragma once

// Who speaks on a connection of the one port, and how messages are cut out of the stream between
// two agents: after four bytes that say who speaks and in which version come frames, each a length
// of four bytes, big-endian, and so many bytes.

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// Who speaks on a connection of the one port.
enum class Protocol : std::uint8_t {
  kUndecided,  // too few bytes yet
  kStore,      // a c10d client: the VALIDATE opcode
  kAgent,      // 0xDD 'R' 'N', then a version
  kLifeline,   // 0xDD 'R' 'L', then a version
  kHttp,       // a method of HTTP/1
  kUnknown,    // none of ours
};

/// Tells by the first bytes of a connection; needs at most 8 of them.
Protocol detect(std::string_view first_bytes);

/// The largest body of a frame.
inline constexpr std::size_t kFrameBytesMax = 65'536;

/// May follow the body of a frame, and follows that of the first one which a caller sends: an HTTP
/// server at the endpoint takes it for the end of a request, and answers at once.
inline constexpr std::string_view kEndOfRequest = "\r\n\r\n";

/// Of the streams between agents. Agents of two versions do not work together.
inline constexpr int kAgentVersion = 5;

/// What a caller says first. REQUIRES: kAgent or kLifeline.
std::string_view opening_of(Protocol protocol);

/// Whether `opening` is complete; it is not, while more bytes are needed. Fails with kProtocol,
/// naming both versions, if the other side speaks another one. REQUIRES: detect(opening) is kAgent
/// or kLifeline.
Result<bool> check_opening(std::string_view opening);

/// Appends a frame of `body` to `out`. Fails with kLimit if the body is larger than kFrameBytesMax.
Result<void> append_frame(std::string& out, std::string_view body);

/// Cuts a stream of bytes, given in pieces as they came, into frames.
class FrameReader {
 public:
  explicit FrameReader(std::size_t bytes_max = kFrameBytesMax) : bytes_max_(bytes_max) {}

  /// Takes bytes off the front of `input`. Yields the body of the next frame, valid until the next
  /// call and while `input`'s bytes are; none if more bytes are needed, and then all of `input` was
  /// taken. Fails with kLimit when a length is read that exceeds the limit.
  Result<std::optional<std::string_view>> next(std::string_view& input);

 private:
  std::size_t bytes_max_;
  std::string partial_;     // the beginning of a frame, with its length
  bool delivered_ = false;  // what partial_ holds was yielded
};

}  // namespace ddprun
