#include "rendezvous/core/message_json.hpp"

#include "base/parse.hpp"
#include "rendezvous/core/message_fields.hpp"
#include "rendezvous/core/message_writer.hpp"
#include "rendezvous/core/quick_reader.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMax = 8;
constexpr std::size_t kShownBytesMax = 40;  // of a value that is refused

/// Reads from parsed JSON, in any order of fields, and keeps the first reason to refuse it.
class JsonReader {
 public:
  explicit JsonReader(std::string path) : path_(std::move(path)) {}

  /// Reads all of `object`, of whose fields `others` have been read elsewhere.
  template <class T>
  void read(const Json& object, T& into, std::size_t others) {
    if (!object.is_object()) return refuse("", "is no object");
    const Json* const outer = std::exchange(object_, &object);
    const std::size_t outer_seen = std::exchange(seen_, others);
    names_.emplace_back();
    wire::fields(*this, into);
    if (why_.empty() && seen_ < object.size()) refuse_unknown(others);
    names_.pop_back();
    object_ = outer;
    seen_ = outer_seen;
  }

  const std::string& why() const { return why_; }

  template <std::integral T>
  void operator()(std::string_view name, T& number, wire::Range range) {
    if (const Json* const found = find(name)) read_number(name, *found, number, range);
  }
  void operator()(std::string_view name, Duration& duration, wire::Range range) {
    std::int64_t count = 0;
    (*this)(name, count, range);
    duration = Duration(count);
  }
  void operator()(std::string_view name, std::optional<int>& number, wire::Range range) {
    if (const Json* const found = find_optional(name)) {
      read_number(name, *found, number.emplace(), range);
    }
  }
  void operator()(std::string_view name, bool& flag) {
    const Json* const found = find(name);
    if (found == nullptr) return;
    if (!found->is_boolean()) return refuse(name, "is neither true nor false");
    flag = found->get<bool>();
  }
  void operator()(std::string_view name, std::string& text, wire::Length length) {
    const Json* const found = find(name);
    if (found == nullptr) return;
    if (!found->is_string()) return refuse(name, "is no text");
    text = found->get<std::string>();
    if (text.size() > length.max) {
      return refuse(name, fmt::format("has {} bytes; at most {}", text.size(), length.max));
    }
    if (!std::ranges::all_of(text, wire::is_printable)) {
      return refuse(name, "has control characters");
    }
  }
  void operator()(std::string_view name, Incarnation& incarnation) {
    const Json* const found = find(name);
    if (found == nullptr) return;
    const auto parsed =
        found->is_string() ? wire::parse_incarnation(found->get<std::string>()) : std::nullopt;
    if (!parsed) return refuse(name, "is not 16 small hex digits");
    incarnation = *parsed;
  }
  void operator()(std::string_view name, WorkersState& state) {
    const Json* const found = find(name);
    if (found == nullptr) return;
    const auto parsed =
        found->is_string() ? wire::parse_state(found->get<std::string>()) : std::nullopt;
    if (!parsed) return refuse(name, fmt::format("is '{}'", shown(*found)));
    state = *parsed;
  }
  void operator()(
      std::string_view name, std::vector<int>& list, wire::Length length, wire::Range range) {
    const Json* const found = find_list(name, length);
    if (found == nullptr) return;
    for (const Json& item : *found) {
      read_number(name, item, list.emplace_back(), range);
    }
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(std::string_view name, std::vector<T>& list, wire::Length length) {
    const Json* const found = find_list(name, length);
    if (found == nullptr) return;
    for (const Json& item : *found) {
      read_inside(name, item, list.emplace_back());
    }
  }
  template <class T>
  void operator()(std::string_view name, std::optional<T>& value) {
    if (const Json* const found = find_optional(name)) read_inside(name, *found, value.emplace());
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(std::string_view name, T& value) {
    if (const Json* const found = find(name)) read_inside(name, *found, value);
  }

  void require(bool claim, std::string_view why) {
    if (!claim) refuse("", fmt::format("cannot be: {}", why));
  }

 private:
  static std::string shown(const Json& value) {
    return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, kShownBytesMax);
  }

  const Json* find_optional(std::string_view name) {
    names_.back().push_back(name);
    if (!why_.empty()) return nullptr;
    const auto found = object_->find(name);
    if (found == object_->end()) return nullptr;
    seen_ += 1;
    return &*found;
  }

  const Json* find(std::string_view name) {
    const Json* const found = find_optional(name);
    if (found == nullptr) refuse(name, "is missing");
    return found;
  }

  const Json* find_list(std::string_view name, wire::Length length) {
    const Json* const found = find(name);
    if (found == nullptr) return nullptr;
    if (!found->is_array()) refuse(name, "is no list");
    if (found->size() > length.max) {
      refuse(name, fmt::format("has {} items; at most {}", found->size(), length.max));
    }
    return why_.empty() ? found : nullptr;
  }

  template <class T>
  void read_number(std::string_view name, const Json& value, T& number, wire::Range range) {
    if (!value.is_number_integer()) return refuse(name, "is no whole number");
    // What does not fit is below or above every range.
    const bool is_huge = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
    const std::int64_t read = is_huge ? INT64_MAX : value.get<std::int64_t>();
    if (read < range.min || read > range.max) {
      return refuse(
          name, fmt::format("is {}; expected {} to {}", shown(value), range.min, range.max));
    }
    number = static_cast<T>(read);
  }

  template <class T>
  void read_inside(std::string_view name, const Json& value, T& into) {
    const std::size_t outer = path_.size();
    path_.append(1, '.').append(name);
    read(value, into, 0);
    path_.resize(outer);
  }

  void refuse_unknown(std::size_t others) {
    for (const auto& [name, value] : object_->items()) {
      const auto& known = names_.back();
      const bool is_type = others > 0 && name == "type";
      if (is_type || std::ranges::find(known, name) != known.end()) continue;
      return refuse(Json(name).dump().substr(0, kShownBytesMax), "is no field of it");
    }
  }

  void refuse(std::string_view name, std::string_view how) {
    if (!why_.empty()) return;
    why_ = fmt::format("{}{}{} {}", path_, name.empty() ? "" : ".", name, how);
  }

  std::string path_;
  std::string why_;
  const Json* object_ = nullptr;
  std::size_t seen_ = 0;
  std::vector<std::vector<std::string_view>> names_;  // asked for, of each object we are in
};

Error refused(std::string_view what, std::string_view why) {
  return make_error(Errc::kProtocol, fmt::format("{}: {}", what, why));
}

/// The object in `text`. A name given twice would have two meanings, so it is refused.
Result<Json> parse_object(std::string_view what, std::string_view text) {
  bool too_deep = false;
  std::string twice;
  std::vector<std::set<std::string>> names;
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDepthMax) too_deep = true;
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key &&
        !names.back().insert(parsed.get<std::string>()).second) {
      twice = parsed.dump().substr(0, kShownBytesMax);
    }
    return !too_deep;
  };
  Json parsed = Json::parse(text, look, false);
  if (too_deep) return refused(what, fmt::format("it is nested deeper than {}", kDepthMax));
  if (!twice.empty()) return refused(what, fmt::format("{} is given twice", twice));
  if (parsed.is_discarded()) return refused(what, "it is no JSON");
  if (!parsed.is_object()) return refused(what, "it is no JSON object");
  return parsed;
}

template <class T>
Result<Message> read_message(const Json& object, std::string_view type) {
  JsonReader reader{std::string(type)};
  T message;
  reader.read(object, message, 1);
  if (!reader.why().empty()) return refused("message", reader.why());
  return Message(std::move(message));
}

template <class T>
bool read_quickly(std::string_view text, Message& into) {
  T message;
  wire::QuickReader reader(text);
  if (!reader.read_rest(message)) return false;
  into = std::move(message);
  return true;
}

/// Calls `use`, made for the alternative of Message whose type has that name.
template <class Outcome, class Use>
Outcome for_type(std::string_view type, Outcome otherwise, Use use) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    static_cast<void>(
        ((type == wire::kTypes[I] &&
          (otherwise = use.template operator()<std::variant_alternative_t<I, Message>>(), true)) ||
         ...));
    return otherwise;
  }
  (std::make_index_sequence<std::variant_size_v<Message>>());
}

}  // namespace

std::string encode(const Message& message) {
  wire::MessageWriter writer;
  std::visit([&](const auto& it) { writer.write(it, wire::kTypes[message.index()]); }, message);
  return writer.take();
}

std::string encode(const LifelineHello& hello) {
  wire::MessageWriter writer;
  writer.write(hello, "");
  return writer.take();
}

Result<Message> decode(std::string_view text) {
  if (text.ends_with(kEndOfRequest)) text.remove_suffix(kEndOfRequest.size());
  constexpr std::string_view kBegin = R"({"type":")";
  if (text.starts_with(kBegin)) {
    const std::string_view from_type = text.substr(kBegin.size());
    const std::string_view type = from_type.substr(0, from_type.find('"'));
    Message message;
    const auto use = [&]<class T>() {
      return read_quickly<T>(from_type.substr(type.size() + 1), message);
    };
    if (type.size() < from_type.size() && for_type(type, false, use)) return message;
  }
  const auto object = parse_object("message", text);
  if (!object) return object.error();
  const auto type = object->find("type");
  if (type == object->end() || !type->is_string()) return refused("message", "it has no type");
  const auto name = type->get<std::string>();
  const auto use = [&]<class T>() { return read_message<T>(*object, name); };
  return for_type(
      name,
      Result<Message>(refused(
          "message", fmt::format("type {} is unknown", type->dump().substr(0, kShownBytesMax)))),
      use);
}

Result<LifelineHello> decode_line(std::string_view text) {
  const auto object = parse_object("lifeline", text);
  if (!object) return object.error();
  JsonReader reader("hello");
  LifelineHello hello;
  reader.read(*object, hello, 0);
  if (!reader.why().empty()) return refused("lifeline", reader.why());
  return hello;
}

}  // namespace ddprun
