#pragma once

// Messages as JSON and back: what the frames between agents hold. The form of each is in
// message_fields.hpp.

#include "base/error.hpp"
#include "rendezvous/core/lifeline_hello.hpp"
#include "rendezvous/core/messages.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// May stand behind a message, and does behind a hello: whoever takes its connection for one of
/// HTTP does not wait for more.
inline constexpr std::string_view kEndOfRequest = "\r\n\r\n";

/// `message` as one JSON object, such as {"type":"vote_request","term":3}. Whatever a text holds,
/// the result can be decoded: what is no UTF-8 and control characters are replaced, and a text that
/// is too long is cut.
std::string encode(const Message& message);
std::string encode(const LifelineHello& hello);

/// What `text` says. Fails with kProtocol, naming the field that is missing, unknown, given twice,
/// of another type or out of its range. What decodes is within all limits of message_fields.hpp.
///
/// Text as encode() writes it is read in one pass; other JSON of the same meaning is slower.
Result<Message> decode(std::string_view text);
Result<LifelineHello> decode_line(std::string_view text);

}  // namespace ddprun
