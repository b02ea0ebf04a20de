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

PieceOutcome load(Filter& filter, const std::string& piece) {
  OwnMemory memory;
  return filter.load_piece(bytes_of(piece), memory, nullptr);
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
