// Images that no filter has made, as a client may send them by RESTORE: each is refused, or gives a filter
// whose own image can be read.
#include <sepal/base/fields.hpp>
#include <sepal/cuckoo/native/filter.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "cuckoo/cells/cell_lines.hpp"
#include "cuckoo/native/frozen_cells.hpp"
#include "support/catch.hpp"

namespace crafted_image_test {

namespace {

using namespace sepal;
using namespace sepal::cuckoo;

using Bytes = std::vector<std::byte>;
using Lines = std::vector<std::uint64_t>;

// The entries are in order. The lines of a cell with these, and no other.
Lines lines_of(const CellShape& shape, const std::vector<std::uint64_t>& entries) {
  Lines lines(shape.byte_count() / sizeof(std::uint64_t));
  CellBuilder builder(CellLines(shape, lines.data()));
  for (const std::uint64_t entry : entries)
    REQUIRE(builder.add(static_cast<std::uint32_t>(entry >> shape.remainder_bits()),
                        entry & low_bits(shape.remainder_bits())));
  return lines;
}

struct CellOf {
  std::uint32_t root = 0;
  std::uint64_t first = 0;
  std::uint8_t depth = 0;
  CellShape shape;
  std::uint64_t items = 0;
  Lines lines;
  std::uint64_t changes = 0;  // 0: as many as items
  std::uint64_t removed = 0;
};

// As docs/formats.md has it.
void append(Bytes& body, const CellOf& cell) {
  constexpr std::size_t head_bytes = 64;
  const std::size_t lines_bytes = cell.lines.size() * sizeof(std::uint64_t);
  const std::size_t at = body.size();
  body.resize(at + head_bytes + lines_bytes);
  FieldWriter head(std::span<std::byte>(body).subspan(at, head_bytes));
  head.integer(cell.first);
  head.integer(cell.changes == 0 ? cell.items : cell.changes);
  head.integer(cell.removed);
  head.integer(cell.items);
  head.integer(cell.root);
  head.integer(cell.shape.quotient_count());
  head.integer(static_cast<std::uint32_t>(lines_bytes));
  head.integer(std::uint32_t{0});
  head.integer(std::uint8_t{0});
  head.integer(cell.depth);
  head.integer(static_cast<std::uint8_t>(cell.shape.remainder_bits()));
  if (lines_bytes != 0) std::memcpy(body.data() + at + head_bytes, cell.lines.data(), lines_bytes);
}

// Null: refused.
FilterPtr loaded(const Plan& plan, const Bytes& body) {
  auto filter = Filter::make(plan, 0, body.size());
  REQUIRE(filter);
  (*filter)->fill_body(0, body);
  return (*filter)->complete() ? *filter : nullptr;
}

Bytes saved(const Filter& filter) {
  const auto still = filter.freeze();
  auto& cells = static_cast<FrozenCells&>(*still);
  Bytes body(cells.byte_count());
  cells.copy(0, body);
  return body;
}

bool add(Filter& filter, std::uint64_t hash) {
  const Fingerprint record{.low = hash, .high = filter.change_count() + 1};
  return filter.repeat({&record, 1});
}

}  // namespace

TEST_CASE("a cell with more copies in slots than a cell keeps there is refused") {
  const Plan planned = *plan({.capacity = 100}, std::uint64_t{1} << 40);
  const CellShape shape(planned.root_quotients, planned.layers[0].remainder_bits_first);
  for (const std::size_t copies : {3U, 4U}) {
    CellOf cell{.shape = shape, .items = copies, .lines = lines_of(shape, Lines(copies, 0))};
    Bytes body;
    append(body, cell);
    const FilterPtr filter = loaded(planned, body);
    REQUIRE((filter != nullptr) == (copies == 3));
    if (filter == nullptr) continue;
    REQUIRE(add(*filter, 0));
    CHECK(filter->item_count() == 4);
    CHECK(loaded(planned, saved(*filter)) != nullptr);
  }
}

TEST_CASE("a cell that says it had very many changes takes no more, and its image can be read") {
  const Plan planned = *plan({.capacity = 100, .expansion = 0}, std::uint64_t{1} << 40);
  const CellShape shape(planned.root_quotients, planned.layers[0].remainder_bits_first);
  constexpr std::uint64_t most = std::uint64_t{1} << 48;
  for (const std::uint64_t changes : {most - 1, most, most + 1}) {
    Bytes body;
    append(body, {.shape = shape, .items = 1, .lines = lines_of(shape, Lines(1, 0)), .changes = changes});
    const FilterPtr filter = loaded(planned, body);
    REQUIRE((filter != nullptr) == (changes <= most));
    if (filter == nullptr) continue;
    OwnMemory memory;
    std::vector<Filter::AddOutcome> outcomes;
    const std::vector<std::string_view> items{"a", "b"};
    REQUIRE(filter->add(items, Filter::AddIf::always, memory, outcomes, nullptr));
    CHECK(filter->item_count() == 1 + (most - changes));
    CHECK(loaded(planned, saved(*filter)) != nullptr);
  }
}

TEST_CASE("a cell that says it lost very many items takes no records, and its image can be read") {
  const Plan planned = *plan({.capacity = 100}, std::uint64_t{1} << 40);
  const CellShape shape(planned.root_quotients, planned.layers[0].remainder_bits_first);
  constexpr std::uint64_t most = std::uint64_t{1} << 48;
  for (const std::uint64_t removed : {most - 1, most}) {
    Bytes body;
    append(body, {.shape = shape, .items = 1, .lines = lines_of(shape, Lines(1, 0)), .removed = removed});
    const FilterPtr filter = loaded(planned, body);
    REQUIRE(filter != nullptr);
    // A removal, and behind it the add that it waits for.
    constexpr std::uint64_t hash = std::uint64_t{1} << 62;
    constexpr std::uint64_t removal = std::uint64_t{1} << 40;
    const std::vector<Fingerprint> records{{.low = hash, .high = 3 | removal}, {.low = hash, .high = 2}};
    CHECK(filter->repeat(records) == (removed < most));
    CHECK(loaded(planned, saved(*filter)) != nullptr);
  }
}

TEST_CASE("a cell may have more items than the number of its last change") {
  const Plan planned = *plan({.capacity = 100}, std::uint64_t{1} << 40);
  const CellShape shape(planned.root_quotients, planned.layers[0].remainder_bits_first);
  Bytes body;
  append(body, {.shape = shape, .items = 2, .lines = lines_of(shape, {0, 1}), .changes = 1});
  const FilterPtr filter = loaded(planned, body);
  REQUIRE(filter != nullptr);
  CHECK(filter->item_count() == 2);
  CHECK(loaded(planned, saved(*filter)) != nullptr);
}

TEST_CASE("a cell is not split more often than its identities can be halved") {
  Plan planned;
  planned.options.capacity = 1'000'000;
  planned.root_count = 1;
  planned.root_quotients = 732'945;  // odd
  planned.layer_count = 1;
  planned.layers[0] = {.identity_bits = 5, .remainder_bits_min = 1, .remainder_bits_first = 9};
  constexpr unsigned depth = 5;
  constexpr unsigned remainder_bits = 4;
  const std::uint64_t identities = planned.root_quotients;
  const CellShape shape(static_cast<std::uint32_t>((identities >> remainder_bits) + 1), remainder_bits);
  Lines entries;
  for (std::uint64_t number = 0; number < 42'500; ++number) entries.push_back(number * 17);
  entries.push_back(identities - 1);
  Bytes body;
  for (std::uint64_t cell = 0; cell < 1U << depth; ++cell) {
    CellOf one{.first = cell << (word_bits - depth),
               .depth = depth,
               .shape = shape,
               .lines = lines_of(shape, cell == 0 ? entries : Lines())};
    if (cell == 0) one.items = entries.size();
    append(body, one);
  }
  const FilterPtr filter = loaded(planned, body);
  REQUIRE(filter != nullptr);
  REQUIRE(add(*filter, std::uint64_t{1} << 58));
  CHECK(loaded(planned, saved(*filter)) != nullptr);
}

namespace {

// A layer that grows, with cells that have no lines, but for a root that is split `depth` times on one side.
Bytes deep_body(const Plan& planned, std::uint8_t depth, bool with_lines) {
  const auto shape_at = [&](unsigned splits) {
    const std::uint64_t identities =
        std::uint64_t{planned.root_quotients} << planned.layers[0].identity_bits >> splits;
    const unsigned bits = planned.layers[0].remainder_bits_first;
    return CellShape(static_cast<std::uint32_t>((identities + low_bits(bits)) >> bits), bits);
  };
  Bytes body;
  for (std::uint32_t root = 0; root + 1 < planned.root_count; ++root)
    append(body, {.root = root, .shape = shape_at(0), .lines = {}});
  // From the deepest on: the cells of one side, then the rest of each split.
  for (unsigned split = depth + 1U; split-- > 0;) {
    const bool is_first = split == depth;
    const unsigned its_depth = is_first ? depth : split + 1;
    append(body, {.root = planned.root_count - 1,
                  .first = is_first ? 0 : std::uint64_t{1} << (word_bits - its_depth),
                  .depth = static_cast<std::uint8_t>(its_depth),
                  .shape = shape_at(its_depth),
                  .lines = with_lines ? lines_of(shape_at(its_depth), {}) : Lines()});
  }
  return body;
}

Plan growing_plan(std::uint32_t root_count) {
  Plan planned;
  planned.root_count = root_count;
  planned.root_quotients = 64;
  planned.layer_count = 1;
  planned.layers[0] = {.identity_bits = 17, .remainder_bits_min = 1, .remainder_bits_first = 17};
  return planned;
}

}  // namespace

TEST_CASE(
    "a filter takes the pieces of a filter of billions of items, which begin with those of one small range") {
  const auto filter = Filter::create(*plan({.capacity_given = false}, std::uint64_t{1} << 40));
  REQUIRE(filter);
  constexpr std::uint64_t layer = std::uint64_t{1} << 32;
  constexpr unsigned depth = 14;
  constexpr std::uint64_t items = 60'000;
  std::mt19937_64 random(1);
  for (std::uint64_t number = 1; number <= items; ++number) {
    const Fingerprint record{.low = random() >> depth, .high = number | layer};
    REQUIRE((*filter)->repeat({&record, 1}));
  }
  CHECK((*filter)->item_count() == items);
}

TEST_CASE("an image makes a filter of not much more memory than its bytes") {
  constexpr std::uint64_t of_any = std::uint64_t{2} << 20;
  constexpr std::uint64_t times_max = 5;
  for (const std::uint32_t roots : {1U, 100U, 60'000U})
    for (std::uint8_t depth = 1; depth <= 16; ++depth) {
      const Plan planned = growing_plan(roots);
      const Bytes body = deep_body(planned, depth, true);
      const FilterPtr filter = loaded(planned, body);
      // Each depth that a filter of few cells may have is taken.
      CHECK((filter != nullptr) ==
            (std::uint64_t{roots} << depth <= std::max<std::uint64_t>(1 << 17, 8 * (roots + depth))));
      if (filter != nullptr) CHECK(filter->byte_count() <= times_max * body.size() + of_any);
      CHECK(loaded(planned, deep_body(planned, depth, false)) == nullptr);
    }
}

}  // namespace crafted_image_test
