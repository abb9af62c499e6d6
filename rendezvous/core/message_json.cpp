#include "rendezvous/core/message_json.hpp"

#include "rendezvous/core/json_reader.hpp"
#include "rendezvous/core/json_writer.hpp"
#include "rendezvous/core/message_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun {
namespace {

using wire::read_json;
using wire::Typed;
using wire::Unknown;

template <class Body>
Result<Message> decode_body(std::string_view text, std::string_view name) {
  Message message = Body();
  std::string type;
  Typed<Body> typed{.type = type, .body = std::get<Body>(message)};
  const auto read = read_json(text, typed, name, Unknown::kRefuse);
  if (!read) return with_context("message", read.error());
  return message;
}

/// By the order of the alternatives of Message, as kTypes.
constexpr auto kDecoders = []<std::size_t... I>(std::index_sequence<I...>) {
  return std::array{&decode_body<std::variant_alternative_t<I, Message>>...};
}
(std::make_index_sequence<wire::kTypes.size()>());

}  // namespace

std::string encode(const Message& message) {
  std::string type(wire::kTypes[message.index()]);
  return std::visit(
      [&](const auto& body) { return wire::write_json(Typed{.type = type, .body = body}); },
      message);
}

std::string encode(const LifelineHello& hello) {
  return wire::write_json(hello);
}

Result<Message> decode(std::string_view text) {
  // The type may follow other fields, so it is read first, like a message that has nothing else.
  std::string type;
  VerdictHeard nothing;
  Typed<VerdictHeard> only_type{.type = type, .body = nothing};
  const auto read = read_json(text, only_type, "", Unknown::kSkip);
  if (!read) return with_context("message", read.error());
  const auto found = std::ranges::find(wire::kTypes, type);
  if (found == wire::kTypes.end()) {
    return make_error(Errc::kProtocol, fmt::format("message: unknown type '{}'", type));
  }
  return kDecoders[static_cast<std::size_t>(found - wire::kTypes.begin())](text, *found);
}

Result<LifelineHello> decode_line(std::string_view text) {
  LifelineHello hello;
  const auto read = read_json(text, hello, "hello", Unknown::kRefuse);
  if (!read) return with_context("lifeline", read.error());
  return hello;
}

}  // namespace ddprun
