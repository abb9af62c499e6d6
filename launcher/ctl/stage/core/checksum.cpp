#include "launcher/ctl/stage/core/checksum.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kLineBytesShown = 80;

std::size_t digits_of(DigestKind kind) {
  return kind == DigestKind::kMd5 ? 32 : 64;
}

const char* name_of(DigestKind kind) {
  return kind == DigestKind::kMd5 ? "md5" : "sha256";
}

std::string_view without_folders(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

/// One line of sha256sum: digits, a blank, a blank or '*', the name.
struct Line {
  std::string_view hex;
  std::string_view name;  // empty: only digits
};

Line taken_apart(std::string_view line) {
  const std::size_t blank = std::min(line.find_first_of(" \t"), line.size());
  std::string_view name = trim(line.substr(blank));
  if (name.starts_with('*')) name.remove_prefix(1);
  return {.hex = line.substr(0, blank), .name = without_folders(name)};
}

}  // namespace

std::string Checksum::text() const {
  return fmt::format("{} {}", name_of(kind), hex);
}

Result<Checksum> parse_checksum(DigestKind kind, std::string_view hex) {
  Checksum checksum{.kind = kind, .hex = {}};
  for (const char digit : hex) {
    checksum.hex += static_cast<char>(digit >= 'A' && digit <= 'F' ? digit - 'A' + 'a' : digit);
  }
  const bool is_hex = checksum.hex.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (is_hex && hex.size() == digits_of(kind)) return checksum;
  return invalid_argument(
      "'{}' is not a {}: expected {} hex digits",
      hex.substr(0, kLineBytesShown),
      name_of(kind),
      digits_of(kind));
}

Result<Checksum> find_checksum(std::string_view sums, std::string_view file) {
  const std::string_view wanted = without_folders(file);
  std::optional<Checksum> found;
  int lines = 0;
  bool has_name = false;
  for (const std::string_view raw : split(sums, '\n')) {
    const std::string_view text = trim(raw);
    if (text.empty() || text.starts_with('#')) continue;
    ++lines;
    const Line line = taken_apart(text);
    has_name = has_name || !line.name.empty();
    if (!line.name.empty() && line.name != wanted) continue;
    const bool is_md5 = line.hex.size() == digits_of(DigestKind::kMd5);
    auto checksum = parse_checksum(is_md5 ? DigestKind::kMd5 : DigestKind::kSha256, line.hex);
    if (!checksum) return with_context(fmt::format("line {}", lines), checksum.error());
    if (found && *found != *checksum) {
      return invalid_argument("several different checksums for '{}'", wanted);
    }
    found = *std::move(checksum);
  }
  if (found && (has_name || lines == 1)) return *std::move(found);
  return invalid_argument("no line for '{}'; make one with md5sum or sha256sum", wanted);
}

}  // namespace ddprun
