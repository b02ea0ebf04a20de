// Many threads that add in bulk make the same filter as one thread that adds the items one by one.
#include <sepal/bloom/filter/bulk_add.hpp>
#include <sepal/bloom/filter/image.hpp>

#include <rapidcheck.h>

#include "support/catch.hpp"

namespace bulk_add_property {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

// Random items. Some occur more than once.
std::vector<Fingerprint> items_of(std::uint64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Fingerprint> items;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t number = random() % (2 * count);
    items.push_back(fingerprint_of({reinterpret_cast<const char*>(&number), sizeof number}, seed));
  }
  return items;
}

// A filter, and the result of the adds to it.
struct Built {
  FilterPtr filter;
  std::optional<std::uint64_t> refused_item = {};
  Filter::Refusal refusal = Filter::Refusal::none;
};

Built one_after_the_other(const FilterOptions& options, const std::vector<Fingerprint>& items) {
  Built built{.filter = *Filter::create(options, plenty)};
  for (std::size_t i = 0; i < items.size() && !built.refused_item; ++i) {
    built.refusal = built.filter->add_alone(items[i], plenty).refusal;
    if (built.refusal != Filter::Refusal::none) built.refused_item = i;
  }
  return built;
}

struct Way {
  std::size_t batch_items = 1;
  std::size_t threads = 1;
};

Built in_bulk(const FilterOptions& options, std::span<const Fingerprint> items, const Way& way) {
  Built built{.filter = *Filter::create(options, plenty)};
  BulkAdd adding(*built.filter, plenty);
  std::atomic<std::uint32_t> next{0};
  const auto work = [&] {
    BulkAdd::Workspace workspace;
    for (;;) {
      const std::uint32_t batch = next++;
      if (batch * way.batch_items >= items.size()) return;
      const auto rest = items.subspan(batch * way.batch_items);
      (void)adding.add(batch, rest.first(std::min(way.batch_items, rest.size())), workspace);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < way.threads; ++thread) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
  if (adding.refused()) {
    built.refusal = adding.refused()->why;
    built.refused_item = adding.refused()->item;
  }
  return built;
}

std::vector<std::byte> bits_of(const LayerView& layer) {
  std::vector<std::byte> bits(layer.plan().byte_count());
  layer.copy_bits(0, bits);
  return bits;
}

void check_same(const Built& expected, const Built& built) {
  RC_ASSERT(built.refusal == expected.refusal);
  RC_ASSERT(built.refused_item == expected.refused_item);
  RC_ASSERT(encode(header_of(*built.filter)) == encode(header_of(*expected.filter)));
  for (std::uint32_t i = 0; i < expected.filter->layer_count(); ++i)
    RC_ASSERT(bits_of(built.filter->layers()[i]) == bits_of(expected.filter->layers()[i]));
}

}  // namespace

TEST_CASE("a bulk build gives the same filter as single adds, for any batches and threads", "[threads]") {
  CHECK(rc::check([] {
    const auto count = *rc::gen::inRange<std::uint64_t>(1, 40000);
    const FilterOptions options{.error_rate = *rc::gen::element(0.2, 0.01, 0.001, 1e-6),
                                .capacity = *rc::gen::inRange<std::uint64_t>(1, 50000),
                                .expansion = *rc::gen::element<std::uint32_t>(0, 1, 2, 4),
                                .seed = *rc::gen::arbitrary<std::uint64_t>()};
    const Way way{.batch_items = *rc::gen::element<std::size_t>(1, 63, 64, 1000, 9999),
                  .threads = *rc::gen::inRange<std::size_t>(1, 5)};
    // Batches of one item, and a layer for each item, would take as long as all other cases together.
    RC_PRE(way.batch_items > 1 || count < 5000);
    RC_PRE(options.expansion != 1 || options.capacity * 60 > count);
    const auto items = items_of(count, options.seed);
    check_same(one_after_the_other(options, items), in_bulk(options, items, way));
  }));
}

TEST_CASE("a full filter that was built in bulk accepts its own items again") {
  const FilterOptions options{.error_rate = 0.001, .capacity = 20000, .expansion = 0, .seed = 5};
  Built expected{.filter = *Filter::create(options, plenty)};
  std::vector<Fingerprint> items;
  for (std::uint64_t i = 0; expected.filter->item_count() < options.capacity; ++i) {
    items.push_back(fingerprint_of({reinterpret_cast<const char*>(&i), sizeof i}, options.seed));
    REQUIRE(expected.filter->add_alone(items.back(), plenty).refusal == Filter::Refusal::none);
  }
  // Every item twice: all items, and then all items again.
  const auto once = items;
  items.insert(items.end(), once.begin(), once.end());
  const Built built = in_bulk(options, items, {.batch_items = 3000, .threads = 4});
  CHECK(built.refusal == Filter::Refusal::none);
  CHECK(built.filter->item_count() == options.capacity);
  CHECK(bits_of(built.filter->newest_layer()) == bits_of(expected.filter->newest_layer()));
}

}  // namespace bulk_add_property
