// The pieces of a filter that deletes: taken while it changes, and loaded.
#include <sepal/base/endian.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/cuckoo/native/filter.hpp>

#include "support/catch.hpp"

namespace pieces_test {

using namespace sepal;
using namespace sepal::cuckoo;

namespace {

FilterPtr made(const Options& options) {
  return *Filter::create(*plan(options, std::uint64_t{1} << 40));
}

void add(Filter& filter, const std::string& prefix, int begin, int end, int copies = 1) {
  OwnMemory memory;
  std::vector<Filter::AddOutcome> outcomes;
  for (int i = begin; i < end; ++i) {
    const std::string item = prefix + std::to_string(i);
    const std::vector<std::string_view> items(static_cast<std::size_t>(copies), item);
    REQUIRE(filter.add(items, Filter::AddIf::always, memory, outcomes, nullptr));
    REQUIRE(outcomes.back().added);
  }
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

PieceOutcome step(Filter& filter, PieceLoad& load) {
  OwnMemory memory;
  return filter.load_some(load, memory, nullptr);
}

PieceOutcome load(Filter& filter, const std::string& piece) {
  PieceLoad load(filter);
  PieceOutcome outcome = load.read(bytes_of(piece));
  while (outcome == PieceOutcome::more) outcome = step(filter, load);
  return outcome;
}

FilterPtr from_header(const Filter& filter) {
  const auto plan = decode_header_piece(bytes_of(header_piece(filter.plan())));
  REQUIRE(plan);
  return *Filter::create(*plan);
}

// All pieces; between() is called behind each.
template <class Between>
std::vector<std::string> pieces_of(const Filter& filter, Between between) {
  std::vector<std::string> pieces;
  for (std::uint64_t place = 0;;) {
    auto piece = filter.piece_at(place);
    if (!piece) return pieces;
    REQUIRE(piece->next > place);
    place = piece->next;
    pieces.push_back(std::move(piece->bytes));
    between();
  }
}
std::vector<std::string> pieces_of(const Filter& filter) {
  return pieces_of(filter, [] {});
}

void check_same(const Filter& one, const Filter& other, const std::string& prefix, int end) {
  CHECK(one.item_count() == other.item_count());
  int different = 0;
  for (int i = 0; i < end; ++i)
    for (const std::string& item : {prefix + std::to_string(i), "absent" + std::to_string(i)})
      different += one.count(item) == other.count(item) ? 0 : 1;
  CHECK(different == 0);
}

std::string sealed(std::string piece) {
  const std::uint64_t checksum = hash64(std::string_view(piece).substr(0, piece.size() - 8), 0);
  store_little_endian(piece.data() + piece.size() - 8, checksum);
  return piece;
}

}  // namespace

TEST_CASE("a filter that is loaded from its pieces counts each item as before") {
  for (const Options& options :
       {Options{.capacity = 200'000, .seed = 1}, Options{.capacity = 1000, .seed = 2},
        Options{.capacity = 1000, .error_rate = 0.0001, .seed = 3}, Options{.capacity = 3, .seed = 4}}) {
    const FilterPtr filter = made(options);
    const int count = options.capacity == 3 ? 3 : 100'000;
    add(*filter, "item", 0, count);
    add(*filter, "often", 0, 3, 20);
    const FilterPtr loaded = from_header(*filter);
    for (const std::string& piece : pieces_of(*filter)) REQUIRE(load(*loaded, piece) == PieceOutcome::loaded);
    CHECK(loaded->layer_count() == filter->layer_count());
    check_same(*filter, *loaded, "item", count);
    check_same(*filter, *loaded, "often", 3);
  }
}

TEST_CASE("cells that are split between two pieces lose nothing and are counted once") {
  const FilterPtr filter = made({.capacity = 100'000, .seed = 5});
  add(*filter, "item", 0, 100'000);
  int added = 0;
  const auto pieces = pieces_of(*filter, [&] {
    add(*filter, "later", added, added + 60'000);
    added += 60'000;
  });
  REQUIRE(pieces.size() > 3);
  const FilterPtr loaded = from_header(*filter);
  for (const std::string& piece : pieces) REQUIRE(load(*loaded, piece) == PieceOutcome::loaded);
  // An item that was there all the time is there, and no copy more than at the end.
  int wrong = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::string item = "item" + std::to_string(i);
    const std::uint64_t copies = loaded->count(item);
    wrong += copies >= 1 && copies <= filter->count(item) ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(loaded->item_count() <= filter->item_count());
}

TEST_CASE("a piece that comes twice changes nothing, and neither does one of too many copies") {
  const FilterPtr filter = made({.capacity = 1000, .seed = 6});
  add(*filter, "item", 0, 1000);
  const auto pieces = pieces_of(*filter);
  REQUIRE(pieces.size() == 1);
  const FilterPtr loaded = from_header(*filter);
  CHECK(load(*loaded, pieces[0]) == PieceOutcome::loaded);
  CHECK(load(*loaded, pieces[0]) == PieceOutcome::there);
  CHECK(loaded->item_count() == 1000);
  add(*filter, "often", 0, 1, static_cast<int>(piece_copies_max));
  CHECK(load(*from_header(*filter), pieces_of(*filter)[0]) == PieceOutcome::too_many_copies);
}

TEST_CASE("a load has short steps, and a filter that changes between them loses nothing") {
  const FilterPtr filter = made({.capacity = 20'000, .seed = 8});
  add(*filter, "item", 0, 10'000);
  add(*filter, "often", 0, 1, 3000);
  const auto pieces = pieces_of(*filter);
  REQUIRE(pieces.size() == 1);
  const FilterPtr loaded = from_header(*filter);
  PieceLoad load(*loaded);
  REQUIRE(load.read(bytes_of(pieces[0])) == PieceOutcome::more);
  std::uint64_t added = 0;
  int other = 0;
  PieceOutcome outcome = PieceOutcome::more;
  while (outcome == PieceOutcome::more) {
    const std::uint64_t before = load.added_count();
    outcome = step(*loaded, load);
    CHECK(load.added_count() - before <= piece_step_max);
    added += load.added_count() - before;
    // Once the look-up has ended, other clients may add items of the piece as well.
    if (added == 0) continue;
    add(*loaded, "item", other, other + 500);
    other += 500;
  }
  CHECK(outcome == PieceOutcome::loaded);
  CHECK(added == 13'000);
  CHECK(loaded->item_count() == static_cast<std::uint64_t>(13'000 + other));
  CHECK(loaded->count("item0") >= 2);
  CHECK(loaded->count("often0") >= 3000);
}

TEST_CASE("of two loads of one piece that go on side by side, one is refused and has added nothing") {
  const FilterPtr filter = made({.capacity = 10'000, .seed = 9});
  add(*filter, "item", 0, 5000);
  const std::string piece = pieces_of(*filter)[0];
  const FilterPtr loaded = from_header(*filter);
  PieceLoad one(*loaded);
  PieceLoad other(*loaded);
  PieceOutcome of_one = one.read(bytes_of(piece));
  PieceOutcome of_other = other.read(bytes_of(piece));
  while (of_one == PieceOutcome::more) {
    of_one = step(*loaded, one);
    if (of_other == PieceOutcome::more) of_other = step(*loaded, other);
  }
  CHECK(of_one == PieceOutcome::loaded);
  CHECK(of_other == PieceOutcome::there);
  CHECK(other.added_count() == 0);
  check_same(*filter, *loaded, "item", 5000);
}

TEST_CASE("a load goes on with no other filter than that of its first step") {
  const FilterPtr filter = made({.capacity = 1000, .seed = 10});
  add(*filter, "item", 0, 10);
  const FilterPtr loaded = from_header(*filter);
  PieceLoad load(*loaded);
  REQUIRE(load.read(bytes_of(pieces_of(*filter)[0])) == PieceOutcome::more);
  const FilterPtr next = from_header(*filter);
  CHECK(step(*next, load) == PieceOutcome::gone);
  CHECK(next->item_count() == 0);
}

TEST_CASE("a piece with more lines than a cell has is refused before they are looked up") {
  const FilterPtr filter = made({.capacity = 200'000, .seed = 11});
  add(*filter, "item", 0, 200'000);
  const auto pieces = pieces_of(*filter);
  REQUIRE(pieces.size() > 2);
  std::string joined = pieces[0].substr(0, pieces[0].size() - 8) + pieces[1].substr(64);
  CHECK(load(*from_header(*filter), sealed(joined)) == PieceOutcome::damaged);
}

TEST_CASE("any changed byte of a piece is refused, and with a right checksum does no harm", "[exhaustive]") {
  const FilterPtr filter = made({.capacity = 10, .seed = 7});
  add(*filter, "item", 0, 10, 5);
  const std::string header = header_piece(filter->plan());
  const std::string piece = pieces_of(*filter)[0];
  for (std::size_t at = 0; at < piece.size(); ++at) {
    std::string changed = piece;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    const FilterPtr loaded = from_header(*filter);
    CHECK(load(*loaded, changed) == PieceOutcome::damaged);
    CHECK(loaded->item_count() == 0);
    if (load(*loaded, sealed(changed)) == PieceOutcome::loaded)
      CHECK(loaded->item_count() <= piece_copies_max);
  }
  for (std::size_t at = 0; at < header.size(); ++at) {
    std::string changed = header;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    CHECK(!decode_header_piece(bytes_of(changed)));
  }
  for (std::size_t length = 0; length < piece.size(); ++length)
    CHECK(load(*from_header(*filter), piece.substr(0, length)) == PieceOutcome::damaged);
}

}  // namespace pieces_test
