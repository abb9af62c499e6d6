#pragma once

// What a foreign program may send to an agent, as bytes: shared by the libFuzzer target and
// by the test that sends a million frames.

#include "base/check.hpp"
#include "rendezvous/core/frame.hpp"
#include "rendezvous/core/message_json.hpp"

#include <string_view>

namespace ddprun::testing {

/// What decodes can be sent on, and then means the same; the other reader of JSON agrees.
inline void run_message(std::string_view body) {
  if (const auto message = decode(body)) {
    const std::string again = encode(*message);
    DDPRUN_CHECK(decode(again).value() == *message);
    DDPRUN_CHECK(decode(" " + again).value() == *message);  // by the slower reader
    std::string frame;
    DDPRUN_CHECK(append_frame(frame, again).has_value());
  }
  static_cast<void>(decode_line(body).has_value());
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
