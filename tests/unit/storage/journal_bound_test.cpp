#include <sepal/storage/journal/journal_bound.hpp>

#include "support/catch.hpp"

namespace journal_bound_test {

using namespace sepal;
using namespace sepal::storage;

namespace {

TEST_CASE("the bound of a journal is the larger of a size and a share of the data") {
  const JournalBound bound{.bytes_max = 1000, .percent_of_data = 300, .segment_bytes = 10};
  CHECK(bound.bytes_for(0) == 1000);
  CHECK(bound.bytes_for(333) == 1000);
  CHECK(bound.bytes_for(1000) == 3000);
  CHECK(bound.bytes_for(~std::uint64_t{0}) == std::uint64_t{1} << 62);
}

TEST_CASE("a journal always has room for the segments that it needs to go on") {
  const JournalBound bound{.bytes_max = 1000, .percent_of_data = 0, .segment_bytes = 400};
  CHECK(bound.bytes_for(1'000'000) == 1600);
}

TEST_CASE("a journal may have no bound") {
  CHECK(JournalBound{.bytes_max = 0, .percent_of_data = 300, .segment_bytes = 400}.bytes_for(1000) == 0);
}

TEST_CASE("a file that does not fit beside the least journal never has room") {
  const JournalBound bound{.bytes_max = 1000, .percent_of_data = 0, .segment_bytes = 100};
  CHECK(bound.room_for(600, 400, 1000) == Room::now);
  CHECK(bound.room_for(600, 401, 1000) == Room::after_a_save);
  CHECK(bound.room_for(601, 1000, 1000) == Room::never);
  // A journal that has just begun has one segment.
  CHECK(bound.room_for(601, 100, 1000) == Room::never);
}

TEST_CASE("without a bound a file always has room") {
  const JournalBound bound{.bytes_max = 0, .percent_of_data = 300, .segment_bytes = 400};
  CHECK(bound.room_for(1'000'000, 1'000'000, 0) == Room::now);
}

}  // namespace
}  // namespace journal_bound_test
