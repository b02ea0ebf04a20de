#include <sepal/base/nearest_name.hpp>

#include "support/catch.hpp"

namespace nearest_name_test {

using sepal::NearestName;

TEST_CASE("the nearest of several names is suggested, or the first of two that are equally near") {
  NearestName nearest("capcity");
  CHECK_FALSE(nearest.is_nearer("expansion"));
  CHECK(nearest.is_nearer("capactity"));
  CHECK(nearest.is_nearer("capacity"));
  CHECK_FALSE(nearest.is_nearer("capcityx"));
}

TEST_CASE("a third of the letters may be wrong, and one of a short name") {
  CHECK(NearestName("pln").is_nearer("plan"));
  CHECK_FALSE(NearestName("pl").is_nearer("plan"));
  CHECK(NearestName("salavge").is_nearer("salvage"));
  CHECK(NearestName("sxlvxg").is_nearer("salvag"));
  CHECK_FALSE(NearestName("sxlvx").is_nearer("salva"));
}

TEST_CASE("case does not matter, nor does an underscore or a dash") {
  NearestName nearest("Save-Interval");
  CHECK(nearest.is_nearer("save_interval"));
}

TEST_CASE("no name is near an empty name or a name longer than all") {
  CHECK_FALSE(NearestName("").is_nearer("a"));
  CHECK_FALSE(NearestName(std::string(65, 'a')).is_nearer(std::string(65, 'a')));
  CHECK(NearestName(std::string(64, 'a')).is_nearer(std::string(64, 'a')));
}

}  // namespace nearest_name_test
