#pragma once

// What a foreign program may send to an agent or as a status, as bytes: shared by the libFuzzer
// target and by the test that sends a hundred thousand messages.

#include "base/check.hpp"
#include "rendezvous/core/frame.hpp"
#include "rendezvous/core/message_json.hpp"
#include "rendezvous/core/status.hpp"

#include <string_view>

namespace ddprun::testing {

/// A message that decodes can be sent on, and then means the same. So does a status.
inline void run_message(std::string_view body) {
  if (const auto message = decode(body)) {
    const std::string again = encode(*message);
    DDPRUN_CHECK(decode(again).value() == *message);
    std::string frame;
    DDPRUN_CHECK(append_frame(frame, again).has_value());
  }
  static_cast<void>(decode_line(body).has_value());
  if (const auto status = parse_status(body)) {
    DDPRUN_CHECK(parse_status(to_json(*status)).value() == *status);
  }
}

/// Reads `stream` in pieces of `size` as frames, and each as a message.
inline void run_stream(std::string_view stream, std::size_t size) {
  FrameReader reader;
  for (; !stream.empty(); stream.remove_prefix(std::min(size, stream.size()))) {
    std::string_view piece = stream.substr(0, size);
    for (;;) {
      const auto body = reader.next(piece);
      if (!body) return;
      if (!*body) break;
      run_message(**body);
    }
    DDPRUN_CHECK(piece.empty());
  }
}

}  // namespace ddprun::testing
