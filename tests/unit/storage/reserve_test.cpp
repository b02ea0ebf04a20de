#include <sepal/storage/journal/reserve.hpp>

#include "support/catch.hpp"
#include "support/simulated_disk.hpp"

namespace reserve_test {

using namespace sepal;
using namespace sepal::storage;

namespace {

constexpr std::uint64_t reserve_bytes = std::uint64_t{64} << 10;

std::unique_ptr<Reserve> opened(test::SimulatedDisk& disk, std::uint64_t byte_count = reserve_bytes) {
  REQUIRE(disk.make_directory("d"));
  auto reserve = Reserve::open(disk, "d", byte_count);
  REQUIRE(reserve);
  return std::move(*reserve);
}

using Names = std::vector<std::string>;

TEST_CASE("a reserve is four files, which a start finds again") {
  test::SimulatedDisk disk;
  {
    const auto reserve = opened(disk);
    CHECK_FALSE(reserve->whole());
    CHECK(reserve->byte_count() == 0);
    REQUIRE(reserve->restore());
    CHECK(reserve->whole());
  }
  CHECK(*disk.list("d") == Names{"reserve-1", "reserve-2", "reserve-3", "reserve-4"});
  const auto again = opened(disk);
  CHECK(again->whole());
  CHECK(again->byte_count() == reserve_bytes);
}

TEST_CASE("reserve files of another size are removed, and all files if there is no reserve") {
  test::SimulatedDisk disk;
  REQUIRE(opened(disk)->restore());
  const auto larger = opened(disk, 2 * reserve_bytes);
  CHECK(larger->byte_count() == 0);
  CHECK(disk.list("d")->empty());
  REQUIRE(larger->restore());
  const auto none = opened(disk, 0);
  CHECK(disk.list("d")->empty());
  CHECK(none->whole());
  REQUIRE(none->restore());
  CHECK_FALSE(none->lend({}));
  CHECK_FALSE(none->give_to_journal());
}

TEST_CASE("the journal gets half of the reserve, and a save all of the rest") {
  test::SimulatedDisk disk;
  const auto reserve = opened(disk);
  REQUIRE(reserve->restore());
  CHECK(reserve->give_to_journal());
  CHECK(reserve->give_to_journal());
  CHECK_FALSE(reserve->give_to_journal());
  CHECK(reserve->byte_count() == reserve_bytes / 2);
  CHECK_FALSE(reserve->lend({.byte_count = reserve_bytes / 2 + 1}));
  CHECK(reserve->lend({.byte_count = reserve_bytes / 2}));
  CHECK(disk.list("d")->empty());
  CHECK(reserve->restore().error().code == Errc::in_use);
  reserve->returned();
  REQUIRE(reserve->restore());
  CHECK(reserve->whole());
}

TEST_CASE("a save of data that has grown leaves the journal's share, and the journal leaves one piece") {
  test::SimulatedDisk disk;
  const auto reserve = opened(disk);
  REQUIRE(reserve->restore());
  CHECK_FALSE(reserve->lend({.byte_count = reserve_bytes / 2 + 1, .for_good = true}));
  CHECK(reserve->lend({.byte_count = reserve_bytes / 2, .for_good = true}));
  CHECK(*disk.list("d") == Names{"reserve-1", "reserve-2"});
  reserve->returned();
  CHECK(reserve->give_to_journal());
  CHECK_FALSE(reserve->give_to_journal());
  CHECK(*disk.list("d") == Names{"reserve-2"});
  CHECK(reserve->lend({.byte_count = reserve_bytes / 4}));
  CHECK(disk.list("d")->empty());
}

TEST_CASE("a reserve that is lent while a piece is made has no piece left") {
  test::SimulatedDisk disk;
  const auto reserve = opened(disk);
  disk.set_observer([&](const char* operation, const auto& path) {
    if (std::string_view(operation) == "create_mapped" && path.filename() == "reserve-2")
      CHECK(reserve->lend({}));
  });
  CHECK(reserve->restore().error().code == Errc::in_use);
  disk.set_observer({});
  CHECK(disk.list("d")->empty());
  CHECK(reserve->byte_count() == 0);
  reserve->returned();
  REQUIRE(reserve->restore());
  CHECK(reserve->whole());
}

TEST_CASE("a reserve is made as large as the room allows, and completed later") {
  test::SimulatedDisk disk;
  const auto reserve = opened(disk);
  disk.set_capacity(reserve_bytes / 2);
  CHECK(reserve->restore().error().code == Errc::disk_full);
  CHECK(reserve->byte_count() == reserve_bytes / 2);
  disk.set_capacity(reserve_bytes);
  REQUIRE(reserve->restore());
  CHECK(reserve->whole());
}

}  // namespace
}  // namespace reserve_test
