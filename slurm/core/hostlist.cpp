#include "slurm/core/hostlist.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "slurm/core/excerpt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace ddprun {
namespace {

constexpr std::string_view kSeparators = ", \t\n";
constexpr std::size_t kDigitsMax = 18;  // always fits into 64 bits

constexpr int kCountMax = 32'767;
static_assert(kHostsMax * kCountMax <= std::numeric_limits<int>::max());

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

/// Letters, digits, '.', '-', '_', and ':' for addresses.
bool is_of_a_name(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         byte == '.' || byte == '-' || byte == '_' || byte == ':';
}

bool is_separator(char byte) {
  return kSeparators.find(byte) != std::string_view::npos;
}

/// `number` with leading zeros, at least `width` digits.
std::string padded(std::uint64_t number, std::size_t width) {
  return fmt::format("{:0{}}", number, width);
}

/// "08-11", or "7" as one number.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t steps = 0;  // from the first to the last number
  std::size_t width = 0;
};

/// "rack[1-2]": the text before a bracket, and the numbers in it.
struct Bracket {
  std::string_view before;
  std::vector<std::string> numbers;
  std::size_t longest = 0;  // longest number, in bytes
};

/// Reads a list from start to end in one pass.
class HostListReader {
 public:
  explicit HostListReader(std::string_view list) : list_(list) {}

  Result<std::vector<std::string>> read() {
    for (;;) {
      while (at_ < list_.size() && is_separator(list_[at_]))
        ++at_;
      if (at_ == list_.size()) return std::move(hosts_);
      if (const auto done = read_item(); !done) return done.error();
    }
  }

 private:
  Error refuse(std::size_t position, std::string_view why) const {
    return invalid_argument("host list '{}', position {}: {}", excerpt(list_), position + 1, why);
  }

  /// Reads the item between two separators: a name, or a name with brackets.
  Result<void> read_item() {
    const std::size_t begin = at_;
    std::vector<Bracket> brackets;
    std::size_t longest = 0;  // longest of its names, in bytes
    std::size_t count = 1;    // of its names; a factor is at most kHostsMax, so it cannot overflow
    for (;;) {
      const std::size_t before = at_;
      while (at_ < list_.size() && is_of_a_name(list_[at_]))
        ++at_;
      const std::string_view text = list_.substr(before, at_ - before);
      longest += text.size();
      if (longest > kHostNameBytesMax) return too_long(begin);
      if (at_ == list_.size() || is_separator(list_[at_])) {
        if (brackets.empty()) return add_name(begin, text);
        if (text.empty()) return add_product(brackets, count);
        return refuse(before, fmt::format("'{}' follows the last bracket", excerpt(text)));
      }
      if (list_[at_] != '[') return no_name();
      auto bracket = read_bracket();
      if (!bracket) return bracket.error();
      bracket->before = text;
      longest += bracket->longest;
      if (longest > kHostNameBytesMax) return too_long(begin);
      count *= bracket->numbers.size();
      if (count > kHostsMax - hosts_.size()) {
        return too_many(begin, list_.substr(begin, at_ - begin));
      }
      brackets.push_back(*std::move(bracket));
    }
  }

  /// Starts at a '['; ends after its ']'.
  Result<Bracket> read_bracket() {
    const std::size_t close = list_.find(']', at_);
    if (close == std::string_view::npos) {
      return refuse(at_, "the bracket is not closed");
    }
    Bracket bracket;
    while (at_ < close) {
      const std::size_t begin = ++at_;
      at_ = std::min(close, list_.find(',', begin));
      const std::string_view text = list_.substr(begin, at_ - begin);
      const auto range = read_range(begin, text);
      if (!range) return range.error();
      if (range->steps >= kHostsMax - bracket.numbers.size()) return too_many(begin, text);
      for (std::size_t i = 0; i <= range->steps; ++i) {
        bracket.numbers.push_back(padded(range->first + i, range->width));
        bracket.longest = std::max(bracket.longest, bracket.numbers.back().size());
      }
    }
    ++at_;
    return bracket;
  }

  Result<Range> read_range(std::size_t position, std::string_view text) const {
    const std::size_t dash = text.find('-');
    const std::string_view low = text.substr(0, dash);
    const auto first = parse_int<std::uint64_t>(low);
    const auto last =
        dash == std::string_view::npos ? first : parse_int<std::uint64_t>(text.substr(dash + 1));
    if (!first || !last) {
      return refuse(
          position, fmt::format("'{}' is neither a number nor a range such as 1-3", excerpt(text)));
    }
    if (*first > *last) {
      return refuse(position, fmt::format("the range '{}' counts down", excerpt(text)));
    }
    if (low.size() > kHostNameBytesMax) return too_long(position);
    return Range{.first = *first, .steps = *last - *first, .width = low.size()};
  }

  Result<void> add_name(std::size_t position, std::string_view name) {
    if (hosts_.size() == kHostsMax) return too_many(position, name);
    hosts_.emplace_back(name);
    return {};
  }

  Result<void> add_product(const std::vector<Bracket>& brackets, std::size_t count) {
    std::vector<std::size_t> chosen(brackets.size(), 0);
    for (std::size_t i = 0; i < count; ++i) {
      std::string& name = hosts_.emplace_back();
      for (std::size_t b = 0; b < brackets.size(); ++b) {
        name += brackets[b].before;
        name += brackets[b].numbers[chosen[b]];
      }
      advance(chosen, brackets);
    }
    return {};
  }

  /// The last bracket changes fastest, then the first, the second, ...: scontrol's order, and so
  /// that of the node ids.
  static void advance(std::vector<std::size_t>& chosen, const std::vector<Bracket>& brackets) {
    const std::size_t size = brackets.size();
    for (std::size_t turn = 0; turn < size; ++turn) {
      const std::size_t b = (turn + size - 1) % size;
      if (++chosen[b] < brackets[b].numbers.size()) return;
      chosen[b] = 0;
    }
  }

  Error no_name() const {
    const char byte = list_[at_];
    const std::string named = byte >= 0x20 && byte < 0x7F
                                  ? fmt::format("'{}'", byte)
                                  : fmt::format("byte {:#04x}", static_cast<unsigned char>(byte));
    return refuse(at_, named + " is not allowed in a host name");
  }

  Error too_long(std::size_t position) const {
    return refuse(position, fmt::format("a host name has at most {} bytes", kHostNameBytesMax));
  }

  Error too_many(std::size_t position, std::string_view text) const {
    return refuse(
        position, fmt::format("with '{}' there are more than {} hosts", excerpt(text), kHostsMax));
  }

  std::string_view list_;
  std::size_t at_ = 0;
  std::vector<std::string> hosts_;
};

/// A host as a stem and a number. Without digits, or with too many, all of it is the stem.
struct Numbered {
  explicit Numbered(std::string_view host) : stem(host) {
    std::size_t digits = 0;
    while (digits < host.size() && is_digit(host[host.size() - 1 - digits]))
      ++digits;
    if (digits == 0 || digits > kDigitsMax) return;
    stem = host.substr(0, host.size() - digits);
    text = host.substr(stem.size());
    number = parse_int<std::uint64_t>(text).value_or(0);
  }

  std::string_view stem;
  std::string_view text;  // of the number; empty if there is none
  std::uint64_t number = 0;
};

bool share_a_stem(const Numbered& one, const Numbered& other) {
  return one.stem == other.stem && !one.text.empty() && !other.text.empty();
}

/// Whether `last` is the number `steps` after `first` in a range that starts there.
bool continues(const Numbered& first, const Numbered& last, std::size_t steps) {
  return last.number == first.number + steps && last.text == padded(last.number, first.text.size());
}

/// Numbers of one stem, in the format of its bracket: "1-3,7".
std::string ranges_of(std::span<const Numbered> same_stem) {
  std::string ranges;
  for (std::size_t at = 0; at < same_stem.size();) {
    std::size_t end = at + 1;
    while (end < same_stem.size() && continues(same_stem[at], same_stem[end], end - at))
      ++end;
    if (at > 0) ranges += ',';
    ranges += same_stem[at].text;
    if (end - at > 1) ranges.append("-").append(same_stem[end - 1].text);
    at = end;
  }
  return ranges;
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view list) {
  return HostListReader(list).read();
}

std::string fold_hostlist(std::span<const std::string> hosts) {
  const std::vector<Numbered> all(hosts.begin(), hosts.end());
  std::string list;
  for (std::size_t at = 0; at < all.size();) {
    std::size_t end = at + 1;
    while (end < all.size() && share_a_stem(all[at], all[end]))
      ++end;
    if (at > 0) list += ',';
    list += all[at].stem;
    const auto same_stem = std::span(all).subspan(at, end - at);
    list += end - at > 1 ? fmt::format("[{}]", ranges_of(same_stem)) : std::string(all[at].text);
    at = end;
  }
  return list;
}

Result<std::vector<int>> expand_counts(std::string_view text) {
  std::vector<int> counts;
  for (const std::string_view piece : split(text, ',')) {
    const std::size_t open = piece.find("(x");
    const auto count = parse_int<int>(piece.substr(0, open));
    auto times = std::optional<std::size_t>(1);
    if (open != std::string_view::npos) {
      const std::string_view suffix = piece.substr(open + 2);
      times = suffix.ends_with(')') ? parse_int<std::size_t>(suffix.substr(0, suffix.size() - 1))
                                    : std::nullopt;
    }
    if (!count || *count < 1 || *count > kCountMax || !times || *times < 1) {
      return invalid_argument(
          "'{}' is not a count up to {}, such as 4 or 4(x2)", excerpt(piece), kCountMax);
    }
    if (*times > kHostsMax - counts.size()) {
      return invalid_argument("with '{}' there are more than {} nodes", excerpt(piece), kHostsMax);
    }
    counts.insert(counts.end(), *times, *count);
  }
  return counts;
}

}  // namespace ddprun
