#pragma once

// What the programs that use CLI11 let a flag have for a value. Header only, so that those which
// do not are built without it. Each refusal tells the value and what is allowed; CLI11 puts the
// flag before it.

#include "base/parse.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
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

/// The same for whole numbers, as a person writes them: CLI11 reads 010 as 8, and 0x10 as 16.
inline CLI::Validator count(std::int64_t min, std::int64_t max) {
  return {
      [min, max](const std::string& text) -> std::string {
        const auto value = parse_int<std::int64_t>(text);
        const bool is_plain = value && std::to_string(*value) == text;
        if (is_plain && *value >= min && *value <= max) return {};
        return fmt::format("'{}' is not a whole number from {} to {}", text, min, max);
      },
      fmt::format("{}..{}", min, max)};
}

/// Refuses the empty text that a shell makes of a variable that is not set: to take it for a flag
/// that was left out could train on other data, or listen on every address.
inline CLI::Validator not_empty() {
  return {
      [](const std::string& text) -> std::string {
        return text.empty() ? "'' names nothing; give a name, or leave the flag out" : "";
      },
      ""};
}

/// Accepts these words alone, and tells all of them in --help and in a refusal. CLI11's own
/// CheckedTransformer garbles both for an enum.
inline CLI::Validator one_of(std::vector<std::string> words) {
  std::string description = fmt::format("{{{}}}", fmt::join(words, ","));
  return {
      [words = std::move(words)](const std::string& text) -> std::string {
        if (std::ranges::find(words, text) != words.end()) return {};
        return fmt::format("'{}' is not one of {}", text, fmt::join(words, ", "));
      },
      std::move(description)};
}

/// The words that `kinds` gives a meaning to.
template <class Kind>
std::vector<std::string> words_of(const std::map<std::string, Kind>& kinds) {
  std::vector<std::string> words;
  words.reserve(kinds.size());
  for (const auto& [word, kind] : kinds) {
    words.push_back(word);
  }
  return words;
}

}  // namespace ddprun
