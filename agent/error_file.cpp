#include "agent/error_file.hpp"

#include "base/file.hpp"
#include "base/parse.hpp"

#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr bool kNoThrow = false;
constexpr std::size_t kMessageBytesMax = 1 << 16;
constexpr int kDepthMax = 100;  // of nesting: what reads deeper JSON uses up the stack

/// The JSON of a worker, discarded when it is none or nested too deep.
Json parse(std::string_view content) {
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

std::optional<std::string> read_error_file(const std::filesystem::path& path) {
  if (path.empty()) return std::nullopt;
  auto content = read_file(path, kErrorFileBytesMax);
  if (!content) return std::nullopt;
  return *std::move(content);
}

}  // namespace ddprun
