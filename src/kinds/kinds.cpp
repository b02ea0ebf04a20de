// All kinds of values. A program with other kinds defines `kinds` itself.
#include "kinds/own_kinds.hpp"

namespace sepal::value {

constinit const std::span<const KindRow* const> kinds{own_kinds};

}  // namespace sepal::value
