#include <sepal/base/gate.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/value/heap.hpp>

#include "bloom/filter/layer.hpp"
#include "support/catch.hpp"

namespace filter_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

FilterPtr filter_of(const FilterOptions& options) {
  auto filter = Filter::create(options, plenty);
  REQUIRE(filter);
  return *filter;
}

// Adds as the keyspace does: as a batch if there is room, otherwise with the gate closed.
bool add(Filter& filter, std::string_view item) {
  bool added = false;
  if (filter.try_add({&item, 1}, {&added, 1})) return added;
  const auto outcome = filter.add_alone(item, plenty);
  REQUIRE(outcome.refusal == Filter::Refusal::none);
  return outcome.added;
}

// Adds new items until the filter counts `item_count`.
void fill_up_to(Filter& filter, std::uint64_t item_count) {
  for (std::uint64_t i = filter.item_count(); filter.item_count() < item_count; ++i)
    add(filter, "filler " + std::to_string(i) + " of " + std::to_string(item_count));
}

bool contains(const Filter& filter, std::string_view item) {
  bool present = false;
  filter.contains({&item, 1}, {&present, 1});
  return present;
}

// Whether the difference is within a share of the second value.
bool near(double value, double expected, double share) {
  return std::abs(value - expected) <= share * expected;
}

std::string item(std::uint64_t number) {
  return "item " + std::to_string(number);
}

// Strings and views of them, as a batch.
struct Batch {
  explicit Batch(std::vector<std::string> contents)
      : items(std::move(contents)), views(items.begin(), items.end()), answers(new bool[items.size()]) {}
  std::span<bool> answer_span() { return {answers.get(), items.size()}; }
  [[nodiscard]] std::vector<bool> answered() const {
    return std::vector<bool>(answers.get(), answers.get() + items.size());
  }

  std::vector<std::string> items;
  std::vector<std::string_view> views;
  std::unique_ptr<bool[]> answers;
};

Batch new_items(std::size_t count, std::uint64_t first) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < count; ++i) items.push_back(item(first + i));
  return Batch(items);
}

TEST_CASE("a new filter is empty, holds added items, and reports a second add as known") {
  const auto filter = filter_of({.seed = 3});
  CHECK(filter->item_count() == 0);
  CHECK_FALSE(contains(*filter, "a"));
  CHECK(add(*filter, "a"));
  CHECK(contains(*filter, "a"));
  CHECK_FALSE(add(*filter, "a"));
  CHECK(filter->item_count() == 1);
  CHECK_FALSE(contains(*filter, ""));
  CHECK(add(*filter, ""));
  CHECK(contains(*filter, ""));
}

TEST_CASE("items are bytes: zero bytes and the length matter") {
  const auto filter = filter_of({.error_rate = 1e-6});
  using namespace std::string_view_literals;
  CHECK(add(*filter, "a\0b"sv));
  CHECK_FALSE(contains(*filter, "a"sv));
  CHECK_FALSE(contains(*filter, "a\0c"sv));
  CHECK_FALSE(contains(*filter, "a\0b\0"sv));
  const std::string long_item(1 << 20, 'x');
  CHECK(add(*filter, long_item));
  CHECK(contains(*filter, long_item));
}

TEST_CASE("a layer opens with the first new item beyond the capacity") {
  struct Growth {
    std::uint32_t expansion;
    std::array<std::uint64_t, 4> capacities;
  };
  const auto growth =
      GENERATE(Growth{1, {10, 20, 30, 40}}, Growth{2, {10, 30, 70, 150}}, Growth{4, {10, 50, 210, 850}});
  const auto filter = filter_of({.error_rate = 1e-6, .capacity = 10, .expansion = growth.expansion});
  std::uint32_t layers = 1;
  for (const std::uint64_t capacity : growth.capacities) {
    CHECK(filter->layer_count() == layers);
    CHECK(filter->capacity() == capacity);
    fill_up_to(*filter, capacity);
    CHECK(filter->layer_count() == layers);
    CHECK(filter->item_count() == capacity);
    ++layers;
    fill_up_to(*filter, capacity + 1);
  }
}

TEST_CASE("a known item never makes a filter grow") {
  const auto filter = filter_of({.capacity = 10});
  add(*filter, "known");
  fill_up_to(*filter, 10);
  CHECK_FALSE(add(*filter, "known"));
  const auto alone = filter->add_alone("known", plenty);
  CHECK_FALSE(alone.added);
  CHECK(alone.refusal == Filter::Refusal::none);
  CHECK(filter->layer_count() == 1);
}

TEST_CASE("a filter that does not scale holds its capacity, and not one item more") {
  const std::uint64_t capacity = GENERATE(1, 2, 10, 1000, 300'000);
  const auto filter = filter_of({.error_rate = 1e-4, .capacity = capacity, .expansion = 0});
  CAPTURE(capacity);
  add(*filter, "first");
  fill_up_to(*filter, capacity);
  CHECK(filter->item_count() == capacity);
  for (const char* one_more : {"x", "y", "z"}) {
    const std::string_view view = one_more;
    bool added = false;
    CHECK_FALSE(filter->try_add({&view, 1}, {&added, 1}));
    CHECK(filter->add_alone(view, plenty).refusal == Filter::Refusal::full);
  }
  CHECK_FALSE(add(*filter, "first"));
  CHECK(filter->item_count() == capacity);
  CHECK(filter->layers().front().item_count() == capacity);
}

TEST_CASE("a batch counts an item once even if it contains the item twice") {
  const auto filter = filter_of({.capacity = 100});
  Batch batch({"a", "b", "a", "c", "b", "a"});
  REQUIRE(filter->try_add(batch.views, batch.answer_span()));
  CHECK(batch.answered() == std::vector<bool>{true, true, false, true, false, false});
  CHECK(filter->item_count() == 3);
}

TEST_CASE("a batch is added as a whole or not at all") {
  const bool large = GENERATE(false, true);
  const std::uint64_t capacity = large ? 400'000 : 100;
  const auto filter = filter_of({.error_rate = 1e-6, .capacity = capacity, .expansion = 0});
  fill_up_to(*filter, capacity - 40);
  CAPTURE(capacity);

  Batch too_many = new_items(41, 0);
  CHECK_FALSE(filter->try_add(too_many.views, too_many.answer_span()));
  CHECK(filter->item_count() == capacity - 40);
  filter->contains(too_many.views, too_many.answer_span());
  CHECK(too_many.answered() == std::vector<bool>(41, false));

  // An add with the gate closed finds the room that is left in the shards' reserves.
  CHECK(filter->add_alone("alone", plenty).added);
  Batch fitting = new_items(38, 1000);
  CHECK(filter->try_add(fitting.views, fitting.answer_span()));
  CHECK(filter->item_count() == capacity - 1);
}

TEST_CASE("a batch of items that are present is never refused for lack of room") {
  const auto filter = filter_of({.error_rate = 1e-6, .capacity = 50, .expansion = 0});
  Batch batch = new_items(50, 0);
  REQUIRE(filter->try_add(batch.views, batch.answer_span()));
  REQUIRE(filter->item_count() == 50);
  CHECK(filter->try_add(batch.views, batch.answer_span()));
  CHECK(batch.answered() == std::vector<bool>(50, false));
}

TEST_CASE("a batch whose new items just fit is added, whatever known items it has") {
  const auto filter = filter_of({.error_rate = 1e-6, .capacity = 50, .expansion = 0});
  Batch first = new_items(45, 0);
  REQUIRE(filter->try_add(first.views, first.answer_span()));
  Batch second = new_items(40, 10);
  REQUIRE(filter->try_add(second.views, second.answer_span()));
  CHECK(filter->item_count() == 50);
}

TEST_CASE("an empty batch is accepted") {
  const auto filter = filter_of({});
  CHECK(filter->try_add({}, {}));
  filter->contains({}, {});
}

TEST_CASE("a filter refuses to grow beyond its limits, and still finds its items") {
  const auto filter = filter_of({.error_rate = 1e-6, .capacity = 10});
  add(*filter, "known");
  fill_up_to(*filter, 10);
  const std::uint64_t bytes = filter->byte_count();

  CHECK(filter->add_alone("new", {.bytes_max = plenty.bytes_max, .layers_max = 1}).refusal ==
        Filter::Refusal::layer_limit);
  CHECK(filter->add_alone("new", {.bytes_max = bytes}).refusal == Filter::Refusal::too_large);
  CHECK(filter->add_alone("new", {.bytes_max = bytes - 1}).refusal == Filter::Refusal::too_large);
  CHECK(filter->add_alone("new", {.bytes_max = 0}).refusal == Filter::Refusal::too_large);
  CHECK(filter->byte_count() == bytes);
  CHECK(filter->item_count() == 10);
  CHECK_FALSE(contains(*filter, "new"));
  CHECK_FALSE(filter->add_alone("known", {.bytes_max = 0, .layers_max = 0}).added);

  REQUIRE(filter->add_alone("new", plenty).added);
  const std::uint64_t grown_bytes = filter->byte_count();
  const auto again = filter_of({.error_rate = 1e-6, .capacity = 10});
  fill_up_to(*again, 10);
  CHECK(again->add_alone("new", {.bytes_max = grown_bytes - 1}).refusal == Filter::Refusal::too_large);
  CHECK(again->add_alone("new", {.bytes_max = grown_bytes}).added);
}

TEST_CASE(
    "a filter tells its new layer before another thread can find it, and keeps the list before for readers") {
  const auto filter = filter_of({.error_rate = 1e-6, .capacity = 10});
  Gate gate(1);
  {
    Limbo limbo(&gate);
    for (std::uint32_t layers = 1; layers < 5; ++layers) {
      fill_up_to(*filter, filter->capacity());
      REQUIRE(filter->find_room() == Filter::Room::none);
      std::optional<LayerPlan> told;
      const auto refusal = filter->grow(plenty, nullptr, limbo, [&](const LayerPlan& plan) {
        told = plan;
        CHECK(filter->layer_count() == layers);
      });
      CHECK(refusal == Filter::Refusal::none);
      CHECK(filter->layer_count() == layers + 1);
      CHECK(told == filter->newest_layer().plan());
      CHECK(filter->find_room() == Filter::Room::some);
      // The first growth has replaced no list.
      CHECK(limbo.empty() == (layers == 1));
    }
  }
  const auto refused = filter_of({.capacity = 10, .expansion = 0});
  fill_up_to(*refused, 10);
  Limbo limbo(nullptr);
  const auto never = [](const LayerPlan&) { FAIL("a refused growth is told"); };
  CHECK(refused->grow(plenty, nullptr, limbo, never) == Filter::Refusal::full);
  CHECK(filter->add_alone("later", plenty).added);
  fill_up_to(*filter, filter->capacity());
  CHECK(filter->grow({.bytes_max = filter->byte_count()}, nullptr, limbo, never) ==
        Filter::Refusal::too_large);
}

TEST_CASE("a layer whose capacity would overflow is refused as too large") {
  const FilterOptions options{.error_rate = 0.01, .capacity = 10, .expansion = expansion_max};
  const auto filter = filter_of(options);
  fill_up_to(*filter, 10);
  const FilterLimits boundless{.bytes_max = std::numeric_limits<std::uint64_t>::max(), .layers_max = 64};
  // The second layer is for a third of a million items. A layer of 2^64 bytes or more is refused before it is
  // allocated.
  CHECK(filter->add_alone("second layer", boundless).added);
  Filter::LayerState full{.plan = filter->layers()[1].plan(),
                          .item_count = filter->layers()[1].plan().capacity};
  const Filter::LayerState first{.plan = filter->layers()[0].plan(), .item_count = 10};
  const std::array states{first, full};
  auto restored = Filter::restore(options, states, boundless);
  REQUIRE(restored);
  const auto outcome = (*restored)->add_alone("third layer", {.bytes_max = 1 << 30});
  CHECK(outcome.refusal == Filter::Refusal::too_large);
}

TEST_CASE("options at their limit are accepted, and beyond it refused") {
  const auto error_of = [](const FilterOptions& options) {
    const auto filter = Filter::create(options, plenty);
    return filter ? std::optional<Errc>() : filter.error().code;
  };
  CHECK(error_of({.capacity = 0}) == Errc::out_of_range);
  CHECK(error_of({.error_rate = 0}) == Errc::out_of_range);
  CHECK(error_of({.error_rate = 1}) == Errc::out_of_range);
  CHECK(error_of({.error_rate = std::numeric_limits<double>::quiet_NaN()}) == Errc::out_of_range);
  CHECK(error_of({.expansion = expansion_max + 1}) == Errc::out_of_range);
  CHECK(error_of({.capacity = 1, .expansion = expansion_max}) == std::nullopt);
  CHECK(error_of({.error_rate = 0.999}) == std::nullopt);
  CHECK(error_of({.error_rate = std::numeric_limits<double>::denorm_min()}) == std::nullopt);
}

TEST_CASE("a filter that would not fit is refused before it is allocated") {
  for (const std::uint64_t capacity : {std::numeric_limits<std::uint64_t>::max(), std::uint64_t{1} << 50}) {
    const auto filter = Filter::create({.capacity = capacity}, plenty);
    REQUIRE_FALSE(filter);
    CHECK(filter.error().code == Errc::too_large);
  }
  // Larger than the address space, whatever the limit is.
  const FilterLimits boundless{.bytes_max = std::numeric_limits<std::uint64_t>::max()};
  const auto refused = Filter::create({.capacity = std::uint64_t{1} << 52}, boundless);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::out_of_memory);
}

TEST_CASE("the bytes of a filter are known before it is made") {
  for (const std::uint64_t capacity : {1, 10, 100, 1000, 100'000, 1'000'000, 10'000'000}) {
    const FilterOptions options{.capacity = capacity};
    const auto plan = Filter::plan(options, plenty);
    REQUIRE(plan);
    CAPTURE(capacity);
    CHECK(Filter::create(options, {.bytes_max = plan->byte_count}));
    CHECK_FALSE(Filter::create(options, {.bytes_max = plan->byte_count - 1}));
    CHECK_FALSE(Filter::plan(options, {.bytes_max = plan->byte_count - 1}));
    const auto created = Filter::create(*plan);
    REQUIRE(created);
    CHECK((*created)->byte_count() == plan->byte_count);
    CHECK((*created)->options() == options);
    CHECK((*created)->newest_layer().plan() == plan->first_layer);
  }
}

TEST_CASE("a small filter spends 48 bytes beside its bits") {
  CHECK(sizeof(Filter) + sizeof(Layer) == 48);
  const auto filter = filter_of({});
  CHECK(filter->byte_count() == value::heap_footprint(filter->layers().front().plan().byte_count() + 48));
}

TEST_CASE("pieces of a big layer are in use after adds touched them, and can be moved") {
  const auto filter = filter_of({.capacity = 4'000'000, .expansion = 0});
  const LayerView layer = filter->newest_layer();
  constexpr std::uint64_t huge_page_bytes = 2 << 20;
  REQUIRE(layer.piece_count() == layer.plan().byte_count() / huge_page_bytes);
  REQUIRE(layer.piece_count() >= 2);
  CHECK_FALSE(layer.in_use(0));
  // Some ten items for each small page.
  fill_up_to(*filter, 15'000);
  for (std::uint64_t piece = 0; piece < layer.piece_count(); ++piece) {
    CHECK(layer.in_use(piece));
    std::vector<std::byte> before(huge_page_bytes);
    layer.copy_bits(piece * huge_page_bytes, before);
    layer.move_to_huge_page(piece);
    std::vector<std::byte> after(huge_page_bytes);
    layer.copy_bits(piece * huge_page_bytes, after);
    CHECK(before == after);
  }
}

TEST_CASE("small layers have no pieces to move") {
  CHECK(filter_of({})->newest_layer().piece_count() == 0);
  CHECK(filter_of({.capacity = 1'000'000})->newest_layer().piece_count() == 0);
}

TEST_CASE("copied bits are those of the bitmap, for any pieces") {
  const std::uint64_t capacity = GENERATE(20, 5000, 500'000);
  const auto filter = filter_of({.capacity = capacity, .expansion = 0, .seed = 9});
  fill_up_to(*filter, capacity / 2);
  const LayerView layer = filter->layers().front();
  const std::uint64_t bytes = layer.plan().byte_count();
  std::vector<std::byte> whole(bytes);
  layer.copy_bits(0, whole);
  std::vector<std::byte> pieces(bytes);
  constexpr std::uint64_t piece_bytes = 40;
  for (std::uint64_t at = 0; at < bytes; at += piece_bytes)
    layer.copy_bits(at, std::span(pieces).subspan(at, std::min(piece_bytes, bytes - at)));
  CHECK(pieces == whole);
  std::uint64_t set_bits = 0;
  for (const std::byte byte : whole)
    set_bits += static_cast<std::uint64_t>(__builtin_popcount(std::to_integer<unsigned>(byte)));
  CHECK(set_bits > 0);
  CHECK(near(layer.fill(bytes), static_cast<double>(set_bits) / static_cast<double>(8 * bytes), 1e-12));
  layer.copy_bits(bytes, {});
}

TEST_CASE("a full layer is about half filled, also by a small sample") {
  const auto filter = filter_of({.capacity = 200'000, .expansion = 0});
  fill_up_to(*filter, 200'000);
  const LayerView layer = filter->layers().front();
  CHECK(layer.fill(8) >= 0);
  CHECK(layer.fill(0) <= 1);
  CHECK(near(layer.fill(16 << 10), layer.fill(std::uint64_t{1} << 30), 0.03));
  CHECK(near(layer.fill(std::uint64_t{1} << 30), 0.5, 0.1));
}

}  // namespace

}  // namespace filter_test
