#include <sepal/bloom/kernel/choice.hpp>

#include <cstdlib>
#include <iostream>

#include "support/catch.hpp"

namespace kernel_choice_test {

using namespace sepal;
using namespace sepal::bloom;

// ctest runs the tests of filters once for each kernel, and names it in the environment.
TEST_CASE("the kernel in use is the fastest, or the one that the environment names", "[kernel]") {
  const std::vector<std::string_view> names = kernel_names();
  REQUIRE(names.front() == "plain");
  const char* const named = std::getenv(kernel_variable);
  if (named == nullptr) {
    CHECK(kernel_name() == names.back());
  } else if (std::ranges::count(names, named) > 0) {
    CHECK(kernel_name() == named);
  } else {
    std::cout << "SKIPPED: this processor cannot run the kernel " << named << '\n';
    const auto checked = check_kernel();
    REQUIRE_FALSE(checked);
    CHECK(checked.error().detail.starts_with("SEPAL_KERNEL is '" + std::string(named) + "'"));
    return;
  }
  CHECK(check_kernel());
}

}  // namespace kernel_choice_test
