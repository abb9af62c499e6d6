#include "rendezvous/core/json_reader.hpp"

#include "rendezvous/core/json_writer.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>  // the library itself, compiled here
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace ddprun::wire {
namespace {

namespace json = boost::json;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kDepthMax = 16;
constexpr double kSecondsMax = 1e9;
constexpr Length kShown{.max = 40};  // of what is refused

std::string quoted(std::string_view text) {
  std::string out;
  append_quoted(out, text, kShown);
  return out;
}

/// Without an early exit, so that the compiler can vectorise it.
bool has_control(std::string_view text) {
  unsigned char found = 0;
  for (const char byte : text) {
    found |= static_cast<unsigned char>(static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F);
  }
  return found != 0;
}

}  // namespace

std::optional<std::uint64_t> parse_id(std::string_view text) {
  constexpr std::size_t kDigits = 16;
  if (text.size() != kDigits) return std::nullopt;
  if (text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  std::uint64_t id = 0;
  std::from_chars(text.data(), text.data() + text.size(), id, 16);
  return id;
}

/// The names and signatures are those that Boost.JSON calls.
// NOLINTBEGIN(readability-identifier-naming)
class JsonReader::Events {
 public:
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = max_object_size;
  static constexpr std::size_t max_key_size = max_object_size;
  static constexpr std::size_t max_string_size = max_object_size;

  explicit Events(JsonReader& reader) : reader_(reader) {}

  bool on_document_begin(ErrorCode&) { return true; }
  bool on_document_end(ErrorCode&) { return true; }
  bool on_object_begin(ErrorCode&) { return reader_.on_value(Begin::kObject); }
  bool on_object_end(std::size_t, ErrorCode&) { return reader_.on_end(); }
  bool on_array_begin(ErrorCode&) { return reader_.on_value(Begin::kList); }
  bool on_array_end(std::size_t, ErrorCode&) { return reader_.on_end(); }
  bool on_key_part(std::string_view part, std::size_t, ErrorCode&) { return add(part); }
  bool on_key(std::string_view part, std::size_t, ErrorCode&) {
    reader_.key_ = whole(part);
    return true;
  }
  bool on_string_part(std::string_view part, std::size_t, ErrorCode&) { return add(part); }
  bool on_string(std::string_view part, std::size_t, ErrorCode&) {
    return reader_.on_value(whole(part));
  }
  bool on_number_part(std::string_view, ErrorCode&) { return true; }
  bool on_int64(std::int64_t number, std::string_view, ErrorCode&) {
    return reader_.on_value(number);
  }
  bool on_uint64(std::uint64_t number, std::string_view, ErrorCode&) {
    return reader_.on_value(number);
  }
  bool on_double(double number, std::string_view, ErrorCode&) { return reader_.on_value(number); }
  bool on_bool(bool flag, ErrorCode&) { return reader_.on_value(flag); }
  bool on_null(ErrorCode&) { return reader_.on_value(nullptr); }
  bool on_comment_part(std::string_view, ErrorCode&) { return true; }
  bool on_comment(std::string_view, ErrorCode&) { return true; }

 private:
  bool add(std::string_view part) {
    parts_ += part;
    return true;
  }
  /// A text with escapes comes in parts.
  std::string_view whole(std::string_view last_part) {
    if (parts_.empty()) return last_part;
    whole_ = std::exchange(parts_, {}).append(last_part);
    return whole_;
  }

  JsonReader& reader_;
  std::string parts_;
  std::string whole_;
};
// NOLINTEND(readability-identifier-naming)

Result<void> JsonReader::parse(std::string_view text) {
  json::parse_options limits;
  limits.max_depth = kDepthMax;
  json::basic_parser<Events> parser(limits, *this);
  ErrorCode error;
  const std::size_t parsed = parser.write_some(false, text.data(), text.size(), error);
  if (why_.empty() && error == json::error::too_deep) {
    why_ = fmt::format("it is nested deeper than {}", kDepthMax);
  }
  if (why_.empty() && (error || parsed < text.size())) why_ = "it is not valid JSON";
  if (!why_.empty()) return make_error(Errc::kProtocol, why_);
  return {};
}

bool JsonReader::on_value(Value value) {
  if (skipped_ > 0) {
    if (std::holds_alternative<Begin>(value)) ++skipped_;
    return true;
  }
  value_ = value;
  Frame& frame = frames_.back();
  if (frame.is_list) {
    if (frame.items++ < frame.items_max) {
      frame.visit(*this, frame.into);
    } else {
      name_ = frame.name;
      const std::size_t max = frame.items_max;
      frames_.pop_back();
      refuse(fmt::format("has more than {} items", max));
    }
    return why_.empty();
  }
  name_ = {};
  field_ = 0;
  frame.visit(*this, frame.into);
  if (name_.empty() && unknown_ == Unknown::kRefuse) {
    refuse(fmt::format("has an unknown field {}", quoted(key_)));
  } else if (name_.empty() && std::holds_alternative<Begin>(value)) {
    skipped_ = 1;
  }
  return why_.empty();
}

bool JsonReader::on_end() {
  if (skipped_ > 0) {
    --skipped_;
    return true;
  }
  const Frame& frame = frames_.back();
  if (!frame.is_list) {
    name_ = {};
    field_ = 0;
    is_at_end_ = true;
    frame.visit(*this, frame.into);
    is_at_end_ = false;
  }
  frames_.pop_back();
  return why_.empty();
}

bool JsonReader::is_next(std::string_view name, bool is_required) {
  const std::uint64_t bit = std::uint64_t{1} << field_++;
  if (is_at_end_) {
    if (!is_required || (frames_.back().seen & bit) != 0 || !why_.empty()) return false;
    name_ = name;
    refuse("is missing");
    return false;
  }
  // Once it is found, the last frame may be that of its value.
  if (!name_.empty() || name != key_) return false;
  name_ = name;
  std::uint64_t& seen = frames_.back().seen;
  if ((seen & bit) != 0) refuse("appears twice");
  seen |= bit;
  return why_.empty();
}

void JsonReader::add_frame(Frame frame) {
  frame.name = name_;
  frames_.push_back(frame);
}

void JsonReader::require(bool claim, std::string_view why) {
  if (is_at_end_ && !claim) refuse(fmt::format("is invalid: {}", why));
}

void JsonReader::take(bool& flag) {
  const auto* const found = std::get_if<bool>(&value_);
  if (found == nullptr) return refuse("is not true or false");
  flag = *found;
}

void JsonReader::take(Duration& duration, Seconds /*unit*/) {
  const auto* const whole = std::get_if<std::int64_t>(&value_);
  const auto* const part = std::get_if<double>(&value_);
  const double seconds = part != nullptr    ? *part
                         : whole != nullptr ? static_cast<double>(*whole)
                                            : -1;
  const bool is_in_range = seconds >= 0 && seconds <= kSecondsMax;  // NaN is not
  if (!is_in_range) {
    return refuse(fmt::format("is not a number from 0 to {}", kSecondsMax));
  }
  duration = std::chrono::round<Duration>(std::chrono::duration<double>(seconds));
}

void JsonReader::take(std::string& text, const Length& length) {
  const auto* const found = std::get_if<std::string_view>(&value_);
  if (found == nullptr) return refuse("is not text");
  if (found->size() > length.max) {
    return refuse(fmt::format("has {} bytes; at most {}", found->size(), length.max));
  }
  if (!length.allows_control && has_control(*found)) {
    return refuse("has control characters");
  }
  text = *found;
}

std::int64_t JsonReader::integer(const Range& range) {
  const auto* const number = std::get_if<std::int64_t>(&value_);
  const auto* const huge = std::get_if<std::uint64_t>(&value_);
  if (number != nullptr && *number >= range.min && *number <= range.max) return *number;
  if (number == nullptr && huge == nullptr) {
    refuse("is not an integer");
  } else {
    const auto shown = number != nullptr ? fmt::to_string(*number) : fmt::to_string(*huge);
    refuse(fmt::format("is {}; expected {} to {}", shown, range.min, range.max));
  }
  return range.min;
}

std::uint64_t JsonReader::id() {
  const auto* const text = std::get_if<std::string_view>(&value_);
  const auto parsed = text == nullptr ? std::nullopt : parse_id(*text);
  if (!parsed) refuse("is not 16 lowercase hex digits");
  return parsed.value_or(0);
}

std::size_t JsonReader::index_in(Names names) {
  const auto* const text = std::get_if<std::string_view>(&value_);
  const auto found = text == nullptr ? names.end() : std::ranges::find(names, *text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const std::string shown = text == nullptr ? "not text" : quoted(*text);
  refuse(fmt::format("is {}; expected one of {}", shown, fmt::join(names, ", ")));
  return 0;
}

void JsonReader::refuse(std::string_view how) {
  if (!why_.empty()) return;
  const std::string where = path();
  why_ = fmt::format("{} {}", where.empty() ? "it" : where, how);
}

std::string JsonReader::path() const {
  std::string path;
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    const bool is_last = i + 1 == frames_.size();
    const std::string_view name = is_last ? name_ : frames_[i + 1].name;
    if (i > 0 && frames_[i].is_list) {
      path += fmt::format("[{}]", frames_[i].items - 1);
    } else if (!name.empty()) {
      path.append(path.empty() ? "" : ".").append(name);
    }
  }
  return path;
}

}  // namespace ddprun::wire
