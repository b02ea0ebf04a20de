#include <sepal/base/nearest_name.hpp>

#include <algorithm>
#include <vector>

namespace sepal {
namespace {

// A name longer than any that exists is not compared: the work is the product of the lengths.
constexpr std::size_t name_length_max = 64;

char plain_letter(char c) {
  if (c == '-') return '_';
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string plain(std::string_view name) {
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(), plain_letter);
  return text;
}

// How many letters must be inserted, left out, replaced or swapped with their neighbour (Damerau): cell (i,
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

NearestName::NearestName(std::string_view wanted)
    // One letter more than is compared, so that a longer name is still seen to be too long.
    : wanted_(plain(wanted.substr(0, name_length_max + 1))),
      // More wrong letters would suggest a name that the user did not mean.
      distance_end_(std::max<std::size_t>(1, wanted_.size() / 3) + 1) {}

bool NearestName::is_nearer(std::string_view name) {
  if (wanted_.empty() || wanted_.size() > name_length_max) return false;
  const std::size_t distance = edit_distance(wanted_, plain(name));
  if (distance >= distance_end_) return false;
  // The next name must be nearer than this one. Of equally near names the first wins.
  distance_end_ = distance;
  return true;
}

}  // namespace sepal
