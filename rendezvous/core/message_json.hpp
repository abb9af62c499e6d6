#pragma once

// Messages as JSON: what the frames between agents hold. message_fields.hpp has the fields of each.

#include "base/error.hpp"
#include "rendezvous/core/lifeline_hello.hpp"
#include "rendezvous/core/messages.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// `message` as one JSON object, such as {"type":"vote_request","term":3}. Any text can be sent:
/// bytes that are not UTF-8 and control characters are replaced, and a text that is too long is
/// cut.
std::string encode(const Message& message);
std::string encode(const LifelineHello& hello);

/// The message in `text`. Fails with kProtocol, naming the field that is missing, unknown,
/// repeated, of another type or out of its range. What is returned is within all limits of
/// message_fields.hpp.
Result<Message> decode(std::string_view text);
Result<LifelineHello> decode_line(std::string_view text);

}  // namespace ddprun
