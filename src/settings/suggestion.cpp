#include "suggestion.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace sepal::settings {
namespace {

// Longer names than any setting's are not compared: the work is the product of the lengths.
constexpr std::size_t name_length_max = 64;

std::string plain(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

// How many letters have to be put in, left out, replaced or swapped with their neighbour (Damerau): cell (i,
// j) is the distance of the first i letters of `a` from the first j of `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cell(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cell[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cell[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = cell[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cell[i][j] = std::min({replaced, cell[i - 1][j] + 1, cell[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cell[i][j] = std::min(cell[i][j], cell[i - 2][j - 2] + 1);
      }
    }
  }
  return cell[a.size()][b.size()];
}

}  // namespace

const Setting* nearest_setting(std::string_view name) {
  if (name.empty() || name.size() > name_length_max) return nullptr;
  const std::string wanted = plain(name);
  const Setting* nearest = nullptr;
  // A third of the letters may be wrong: more would suggest what nobody meant.
  std::size_t distance_max = std::max<std::size_t>(1, wanted.size() / 3);
  for (const Setting& setting : all_settings()) {
    std::size_t distance = edit_distance(wanted, setting.key);
    if (!setting.redis_name.empty()) {
      distance = std::min(distance, edit_distance(wanted, plain(setting.redis_name)));
    }
    if (distance > distance_max || (nearest != nullptr && distance == distance_max)) continue;
    nearest = &setting;
    distance_max = distance;
  }
  return nearest;
}

}  // namespace sepal::settings
