#include "agent/core/wrap.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace ddprun {
namespace {

constexpr std::string_view kLetters = "nrlwj%";

std::string meaning(char letter, const WorkerPlace& place, std::string_view run_id) {
  switch (letter) {
    case 'n':
      return fmt::to_string(place.round.place.group_rank);
    case 'r':
      return fmt::to_string(place.rank());
    case 'l':
      return fmt::to_string(place.local_rank);
    case 'w':
      return fmt::to_string(place.round.place.world_size);
    case 'j':
      return std::string(run_id);
    default:
      return "%";
  }
}

}  // namespace

std::optional<std::string> unknown_placeholder(std::string_view word) {
  for (std::size_t at = 0; (at = word.find('%', at)) != std::string_view::npos; at += 2) {
    const std::string_view placeholder = word.substr(at, 2);
    const bool is_known =
        placeholder.size() == 2 && kLetters.find(placeholder[1]) != std::string_view::npos;
    if (!is_known) return std::string(placeholder);
  }
  return std::nullopt;
}

std::string with_place(std::string_view word, const WorkerPlace& place, std::string_view run_id) {
  DDPRUN_CHECK(!unknown_placeholder(word));
  std::string out;
  while (!word.empty()) {
    const std::size_t at = word.find('%');
    out += word.substr(0, at);
    if (at == std::string_view::npos) break;
    out += meaning(word[at + 1], place, run_id);
    word.remove_prefix(at + 2);
  }
  return out;
}

}  // namespace ddprun
