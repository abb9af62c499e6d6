#include "launcher/ctl/core/byte_size.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace ddprun {

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < kUnits.size(); ++unit) {
    number /= 1024;
  }
  return fmt::format("{:.{}f} {}", number, unit == 0 ? 0 : 1, kUnits.at(unit));
}

Result<std::uint64_t> parse_size(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 60U;
  const std::size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
  const bool has_unit = unit != std::string_view::npos;
  const std::uint64_t one = has_unit ? std::uint64_t{1024} << (10 * unit) : 1;
  const auto number = parse_int<std::uint64_t>(text.substr(0, text.size() - (has_unit ? 1 : 0)));
  if (number && *number <= kBytesMax / one) return *number * one;
  return invalid_argument("'{}' is not a number of bytes, such as 500M or 2G (K, M, G, T)", text);
}

}  // namespace ddprun
