// The families of toy_sepald, in place of src/command/table/families.cpp.
#include "command/table/families.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace sepal::command {

extern const Rows toy_rows;

namespace {

constexpr auto with_toy = [] {
  std::array<const Rows*, std::size(own_families) + 1> all{&toy_rows};
  std::ranges::copy(own_families, all.begin() + 1);
  return all;
}();

}  // namespace

constinit const std::span<const Rows* const> families = with_toy;

}  // namespace sepal::command
