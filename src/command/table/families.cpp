#include "command/table/families.hpp"

namespace sepal::command {

constinit const std::span<const Rows* const> families = own_families;

}  // namespace sepal::command
