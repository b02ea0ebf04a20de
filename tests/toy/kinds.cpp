// The kinds of the programs that have the toy, in place of src/kinds/kinds.cpp.
#include <algorithm>
#include <array>
#include <iterator>

#include "kinds/own_kinds.hpp"
#include "toy/toy.hpp"

namespace sepal::value {
namespace {

constexpr auto with_toy = [] {
  std::array<const KindRow*, std::size(own_kinds) + 1> all{};
  std::ranges::copy(own_kinds, all.begin());
  all.back() = &SmallKind<toy::Toy>::row;
  return all;
}();

}  // namespace

constinit const std::span<const KindRow* const> kinds{with_toy};

}  // namespace sepal::value
