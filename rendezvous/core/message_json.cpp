#include "rendezvous/core/message_json.hpp"

#include "rendezvous/core/json_reader.hpp"
#include "rendezvous/core/json_writer.hpp"
#include "rendezvous/core/message_fields.hpp"

namespace ddprun {

using wire::read_json;
using wire::Unknown;

std::string encode(const Message& message) {
  return wire::write_json(message);
}

std::string encode(const LifelineHello& hello) {
  return wire::write_json(hello);
}

Result<Message> decode(std::string_view text) {
  Message message;
  const auto read = read_json(text, message, "", Unknown::kRefuse);
  if (!read) return with_context("message", read.error());
  return message;
}

Result<LifelineHello> decode_line(std::string_view text) {
  LifelineHello hello;
  const auto read = read_json(text, hello, "hello", Unknown::kRefuse);
  if (!read) return with_context("lifeline", read.error());
  return hello;
}

}  // namespace ddprun
