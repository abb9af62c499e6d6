#pragma once

// The limits in a table of fields. A table is written once for each type that travels as JSON:
//
//   void fields(auto& visit, Is<Type> auto& value);
//
// It passes each field to `visit`, which is a JsonWriter or a JsonReader, in the order of the wire:
//
// clang-format off
//   visit("name", number, Range)                 also of a duration, in nanoseconds
//   visit("name", duration, Seconds)
//   visit("name", text, Length)
//   visit("name", flag)
//   visit("name", id)
//   visit("name", enumerator, Names)
//   visit("name", list, Length)                  also of numbers: visit("name", list, Length, Range)
//   visit("name", value)                         of a type that has a table
//   visit("name", optional, limits)              left out if it has no value
//   visit.nullable("name", optional, limits)     null if it has no value
//   visit.first("name", variant, Names)          names the alternative; has to be the first field
//   visit.require(claim, why)                    refused on reading if false
// clang-format on

#include "rendezvous/core/node_info.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace ddprun::wire {

/// Inclusive.
struct Range {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

constexpr Range between(std::int64_t min, std::int64_t max) {
  return {.min = min, .max = max};
}

/// The maximum: bytes of a text, items of a list.
struct Length {
  std::size_t max = 0;
  bool allows_control = false;  // characters, in a text
};

/// A duration as a number of seconds.
struct Seconds {};

/// Names of enumerators, in their order.
using Names = std::span<const std::string_view>;

/// Written as 16 lowercase hex digits: a JSON number of 64 bits is not exact in every reader.
template <class T>
concept Id = std::same_as<T, Incarnation> || std::same_as<T, std::uint64_t>;

/// Of those digits; none if `text` is anything else.
std::optional<std::uint64_t> parse_id(std::string_view text);

template <class T, class Value>
concept Is = std::same_as<std::remove_const_t<T>, Value>;

}  // namespace ddprun::wire
