#pragma once

#include <cstdint>
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

}  // namespace ddprun
