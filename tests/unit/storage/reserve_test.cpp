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
  (*reserve)->demand(byte_count / Reserve::piece_count);
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

TEST_CASE("reserve files that are too long are removed, and all files if there is no reserve") {
  test::SimulatedDisk disk;
  REQUIRE(opened(disk, 2 * reserve_bytes)->restore());
  const auto smaller = opened(disk);
  CHECK(smaller->byte_count() == 0);
  CHECK(disk.list("d")->empty());
  REQUIRE(smaller->restore());
  const auto none = opened(disk, 0);
  CHECK(disk.list("d")->empty());
  CHECK(none->whole());
  REQUIRE(none->restore());
  CHECK_FALSE(none->lend({}));
  CHECK_FALSE(none->give_to_journal());
}

TEST_CASE("a reserve grows from small pieces to its full size, which later starts keep") {
  test::SimulatedDisk disk;
  REQUIRE(disk.make_directory("d"));
  {
    const auto reserve = *Reserve::open(disk, "d", reserve_bytes);
    REQUIRE(reserve->restore());
    CHECK(reserve->byte_count() == 0);
    reserve->demand(4096);
    CHECK(reserve->missing_bytes() == 4 * 4096);
    REQUIRE(reserve->restore());
    CHECK(reserve->byte_count() == 4 * 4096);
    reserve->grow(5000);
    CHECK(reserve->byte_count() == 4 * 8192);
    CHECK(reserve->whole());
    REQUIRE(reserve->give_to_journal());
    reserve->grow(10 * reserve_bytes);
    CHECK(reserve->byte_count() == 3 * 8192);
    REQUIRE(reserve->restore());
    reserve->grow(10 * reserve_bytes);
    CHECK(reserve->byte_count() == reserve_bytes);
  }
  const auto again = *Reserve::open(disk, "d", reserve_bytes);
  again->demand(4096);
  CHECK(again->piece_bytes() == reserve_bytes / 4);
  CHECK(again->whole());
}

TEST_CASE("a reserve that finds no room to grow stays whole, also after a start") {
  test::SimulatedDisk disk;
  REQUIRE(disk.make_directory("d"));
  {
    const auto reserve = *Reserve::open(disk, "d", reserve_bytes);
    reserve->demand(4096);
    REQUIRE(reserve->restore());
    disk.set_capacity(4 * 4096 + 8192);
    reserve->grow(8192);
    CHECK(reserve->byte_count() == 2 * 8192 + 2 * 4096);
    CHECK(reserve->piece_bytes() == 4096);
    CHECK(reserve->whole());
  }
  const auto again = *Reserve::open(disk, "d", reserve_bytes);
  CHECK(again->piece_bytes() == 4096);
  CHECK(again->whole());
  disk.set_capacity(4 * 8192);
  again->grow(8192);
  CHECK(again->piece_bytes() == 8192);
  CHECK(again->byte_count() == 4 * 8192);
}

TEST_CASE("a reserve that is lent while it grows has no piece left") {
  test::SimulatedDisk disk;
  REQUIRE(disk.make_directory("d"));
  const auto reserve = *Reserve::open(disk, "d", reserve_bytes);
  reserve->demand(4096);
  REQUIRE(reserve->restore());
  disk.set_observer([&](const char* operation, const auto& path) {
    if (std::string_view(operation) == "create_mapped" && path.filename() == "reserve-2")
      CHECK(reserve->lend({}));
  });
  reserve->grow(8192);
  disk.set_observer({});
  CHECK(disk.list("d")->empty());
  reserve->returned();
  REQUIRE(reserve->restore());
  CHECK(reserve->byte_count() == 4 * 4096);
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
