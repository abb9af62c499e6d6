#include "rendezvous/core/json_writer.hpp"

#include <boost/nowide/utf/utf.hpp>

namespace ddprun::wire {
namespace {

/// Whether `text` needs no escapes. It has no early exit, so that the compiler can vectorise it: an
/// offer to each of a thousand nodes has the names of all of them.
bool is_plain(std::string_view text) {
  unsigned char special = 0;
  for (const char byte : text) {
    special |=
        static_cast<unsigned char>(byte < 0x20 || byte == 0x7F || byte == '"' || byte == '\\');
  }
  return special == 0;
}

void append_escaped(std::string& out, std::string_view text, const Length& length) {
  namespace utf = boost::nowide::utf;
  std::size_t size = 0;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const char* const begin = at;
    const utf::code_point code = utf::utf_traits<char>::decode(at, end);
    const bool is_valid = utf::is_valid_codepoint(code);
    if (!is_valid) at = begin + 1;
    const bool is_control = code < 0x20 || code == 0x7F;
    std::string_view character = is_valid ? std::string_view(begin, at) : "\xEF\xBF\xBD";  // U+FFFD
    if (is_control && !length.allows_control) character = " ";
    size += character.size();
    if (size > length.max) return;
    if (is_control && length.allows_control) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(code));
      continue;
    }
    if (code == '"' || code == '\\') out += '\\';
    out += character;
  }
}

}  // namespace

void append_quoted(std::string& out, std::string_view text, const Length& length) {
  out += '"';
  if (text.size() <= length.max && is_plain(text)) {
    out += text;
  } else {
    append_escaped(out, text, length);
  }
  out += '"';
}

}  // namespace ddprun::wire
