#include "base/nearest.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ddprun {
namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    rows[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j)
    rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      const std::size_t edited = std::min(rows[i - 1][j], rows[i][j - 1]) + 1;
      rows[i][j] = std::min(edited, rows[i - 1][j - 1] + change);
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view typed, std::span<const std::string> choices) {
  const auto by_distance = [typed](const std::string& choice) { return distance(typed, choice); };
  const auto best = std::ranges::min_element(choices, {}, by_distance);
  if (best == choices.end()) return std::nullopt;
  if (by_distance(*best) * 3 <= best->size()) return *best;
  const auto by_beginning = [typed](const std::string& choice) {
    return distance(typed, std::string_view(choice).substr(0, typed.size()));
  };
  const auto begins = std::ranges::min_element(choices, {}, by_beginning);
  if (by_beginning(*begins) * 4 >= typed.size()) return std::nullopt;
  return *begins;
}

}  // namespace ddprun
