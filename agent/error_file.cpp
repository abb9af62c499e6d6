#include "agent/error_file.hpp"

#include "base/parse.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <system_error>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr bool kNoThrow = false;
constexpr std::size_t kMessageBytesMax = 1 << 16;
constexpr int kDepthMax = 100;  // of nesting: deeper JSON exhausts the parser's stack
std::optional<unsigned> escaped_unit(std::string_view text) {
  if (text.size() < 6 || !text.starts_with("\\u")) return std::nullopt;
  unsigned unit = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + 6, unit, 16);
  if (error != std::errc() || end != text.data() + 6) return std::nullopt;
  return unit;
}

/// Python escapes a byte that it could not decode as half a surrogate pair, which the parser
/// rejects: replaces each unpaired \uD800 to \uDFFF with U+FFFD.
std::string with_whole_characters(std::string_view content) {
  std::string out;
  while (!content.empty()) {
    std::size_t take = content.starts_with('\\') ? std::min<std::size_t>(2, content.size()) : 1;
    const auto unit = escaped_unit(content);
    if (unit && *unit >= 0xD800 && *unit <= 0xDFFF) {
      const auto next = escaped_unit(content.substr(6));
      const bool is_pair = *unit <= 0xDBFF && next && *next >= 0xDC00 && *next <= 0xDFFF;
      if (!is_pair) {
        out += "\\uFFFD";
        content.remove_prefix(6);
        continue;
      }
      take = 12;
    }
    out += content.substr(0, take);
    content.remove_prefix(take);
  }
  return out;
}

/// The JSON that a worker wrote; discarded if it is invalid or nested too deep.
Json parse(std::string_view text) {
  const std::string content = with_whole_characters(text);
  bool too_deep = false;
  const auto watch_depth = [&too_deep](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kDepthMax;
    return !too_deep;
  };
  const Json json = Json::parse(content, watch_depth, kNoThrow);
  return too_deep ? Json(Json::value_t::discarded) : json;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  return found->is_string() ? found->get<std::string>() : dump(*found);
}

std::string cut(std::string_view text) {
  return std::string(trim(text).substr(0, kMessageBytesMax));
}

}  // namespace

std::optional<WorkerError> parse_error_file(std::string_view content) {
  if (trim(content).empty()) return std::nullopt;
  const Json json = parse(content);
  WorkerError as_text{.message = cut(content), .traceback = ""};
  if (!json.is_object() || !json.contains("message")) return as_text;

  const Json& message = json["message"];
  if (!message.is_object()) {
    return WorkerError{.message = cut(text_of(json, "message")), .traceback = ""};
  }
  WorkerError error{.message = cut(text_of(message, "message")), .traceback = ""};
  const auto extra = message.find("extraInfo");
  if (extra != message.end() && extra->is_object()) {
    error.traceback = cut(text_of(*extra, "py_callstack"));
  }
  return error;
}

std::string with_error_code(std::string_view content, int code) {
  Json json = parse(content);
  if (!json.is_object() || !json.contains("message") || !json["message"].is_object()) {
    return std::string(content);
  }
  json["message"]["errorCode"] = code;
  return dump(json);
}

}  // namespace ddprun
