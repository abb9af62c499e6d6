#include "rendezvous/core/message_writer.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace ddprun::wire {
namespace {

using Json = nlohmann::json;

std::string quote_any(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// `text` of at most `bytes_max`, with no character cut in two. REQUIRES: it is UTF-8.
void cut(std::string& text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return;
  const auto goes_on = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
  };
  while (bytes_max > 0 && goes_on(text[bytes_max])) {
    --bytes_max;
  }
  text.resize(bytes_max);
}

}  // namespace

/// Without a way out of the loop, so that many bytes are looked at at once.
bool is_plain_text(std::string_view text) {
  unsigned char strange = 0;
  for (const char byte : text) {
    strange |= static_cast<unsigned char>(!is_plain(byte));
  }
  return strange == 0;
}

void append_quoted(std::string& out, std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max && is_plain_text(text)) {
    out.append(1, '"').append(text).append(1, '"');
    return;
  }
  auto sendable = Json::parse(quote_any(text)).get<std::string>();
  std::ranges::replace_if(
      sendable, [](char byte) { return !is_printable(byte); }, ' ');
  cut(sendable, bytes_max);
  out += quote_any(sendable);
}

std::optional<Incarnation> parse_incarnation(std::string_view text) {
  constexpr std::size_t kDigits = 16;
  if (text.size() != kDigits) return std::nullopt;
  if (text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return Incarnation{value};
}

std::optional<WorkersState> parse_state(std::string_view text) {
  const auto found = std::ranges::find(kWorkersStates, text);
  if (found == kWorkersStates.end()) return std::nullopt;
  return static_cast<WorkersState>(found - kWorkersStates.begin());
}

}  // namespace ddprun::wire
