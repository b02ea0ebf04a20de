// Finds which name the user probably meant by a name that does not exist.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sepal {

// Compares a name that does not exist with the names that do, one after the other. Confined.
class NearestName {
 public:
  explicit NearestName(std::string_view wanted);

  // Whether `name` is nearer than all names before it, and near enough to be suggested: a third of the
  // letters, and at least one, may be wrong. Upper and lower case count as equal, and so do underscores and
  // dashes.
  [[nodiscard]] bool is_nearer(std::string_view name);

 private:
  std::string wanted_;
  std::size_t distance_end_;  // a smaller distance is near enough
};

}  // namespace sepal
