#pragma once

// Checks of flag values for the programs that use CLI11. Header only, so that the other programs
// are built without CLI11. Each error names the value and what is allowed; CLI11 puts the flag
// before it, so a check need not know it.

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/nearest.hpp"
#include "base/parse.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

/// Accepts finite numbers in [min, max]; CLI11's own Range takes NaN.
inline CLI::Validator between(double min, double max) {
  return {
      [min, max](const std::string& text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= min && value <= max) return {};
        return fmt::format("'{}' is not a number from {} to {}", text, min, max);
      },
      fmt::format("{}..{}", min, max)};
}

/// `text` without underscores between digits, which Python allows: 50_000 is 50000.
inline std::string without_digit_groups(const std::string& text) {
  const auto is_digit = [&text](std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_between = i > 0 && is_digit(i - 1) && is_digit(i + 1);
    if (text[i] != '_' || !is_between) digits += text[i];
  }
  return digits;
}

/// Reads a whole decimal number in [min, max]: CLI11 itself reads 010 as 8, and 0x10 as 16. Leaves
/// the plain digits in `text`; else yields the error, which shows the maximum as `end`.
template <std::integral T>
std::string take_whole_number(std::string& text, T min, T max, std::string_view end) {
  const std::string digits = without_digit_groups(text);
  const auto value = parse_int<T>(digits);
  const bool is_plain = value && std::to_string(*value) == digits;
  if (!is_plain || *value < min || *value > max) {
    return fmt::format("'{}' is not a whole number from {} to {}", text, min, end);
  }
  text = digits;
  return {};
}

/// A seed of torch's generators: any unsigned number of 64 bits. For Option::transform().
inline CLI::Validator seed() {
  return {
      [](std::string& text) -> std::string {
        constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
        return take_whole_number<std::uint64_t>(text, 0, kMax, "2^64 - 1");
      },
      "0..2^64-1"};
}

/// Like between(), for whole numbers. For Option::transform(), so that CLI11 gets the digits
/// without underscores.
inline CLI::Validator count(std::int64_t min, std::int64_t max) {
  return {
      [min, max](std::string& text) -> std::string {
        return take_whole_number<std::int64_t>(text, min, max, std::to_string(max));
      },
      fmt::format("{}..{}", min, max)};
}

/// Refuses an empty value, which a shell makes of an unset variable: treating it as a flag that was
/// left out could train on other data, or listen on every address.
inline CLI::Validator not_empty() {
  return {
      [](const std::string& text) -> std::string {
        return text.empty() ? "'' is empty; give a value, or leave the flag out" : "";
      },
      ""};
}

/// Accepts only these choices, and lists them in --help and in the error. CLI11's own
/// CheckedTransformer garbles both for an enum.
inline CLI::Validator one_of(std::vector<std::string> choices) {
  std::string description = fmt::format("{{{}}}", fmt::join(choices, ","));
  return {
      [choices = std::move(choices)](const std::string& text) -> std::string {
        if (std::ranges::find(choices, text) != choices.end()) return {};
        return fmt::format("'{}' is not one of {}", text, fmt::join(choices, ", "));
      },
      std::move(description)};
}

/// The names in `kinds`.
template <class Kind>
std::vector<std::string> choices_of(const std::map<std::string, Kind>& kinds) {
  std::vector<std::string> choices;
  choices.reserve(kinds.size());
  for (const auto& [choice, kind] : kinds) {
    choices.push_back(choice);
  }
  return choices;
}

/// The subcommands and flags of `app` and of the chosen subcommands.
inline void collect_known(const CLI::App& app, std::vector<std::string>& known) {
  for (const CLI::Option* option : app.get_options()) {
    known.push_back(option->get_name());
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(below->get_name());
    if (below->parsed()) collect_known(*below, known);
  }
}

/// CLI11's error as one line. An unknown argument comes first: CLI11 would otherwise report the
/// subcommand that is missing because of it.
inline std::string refusal(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  if (const auto unknown = app.remaining(/*recurse=*/true); !unknown.empty()) {
    std::vector<std::string> known;
    collect_known(app, known);
    text = fmt::format("unknown argument '{}'", unknown.front());
    const auto meant = nearest(unknown.front(), known);
    if (meant) text += fmt::format("; did you mean {}?", *meant);
  }
  const CLI::App* asked = &app;
  std::string program = app.get_name();
  while (!asked->get_subcommands().empty()) {
    asked = asked->get_subcommands().front();
    program += " " + asked->get_name();
  }
  return fmt::format("{}; see {} --help", text, program);
}

/// The endpoint of a server, "HOST:PORT"; the port is required. Fails with kInvalidArgument, naming
/// `flag`.
inline Result<Endpoint> endpoint_with_port(const char* flag, const std::string& text) {
  auto parsed = Endpoint::parse(text, 0);
  if (!parsed) return with_context(fmt::format("{} '{}'", flag, text), parsed.error());
  if (parsed->port != 0) return parsed;
  return make_error(Errc::kInvalidArgument, fmt::format("{} '{}': give HOST:PORT", flag, text));
}

}  // namespace ddprun
