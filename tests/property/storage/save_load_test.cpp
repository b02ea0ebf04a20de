// The law: a load gives the saved keyspace. Filters, keys and file boundaries are random.
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "support/catch.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"
#include "support/values.hpp"

namespace save_load_test {

using namespace sepal;
using namespace sepal::storage;

namespace {

constexpr std::uint64_t case_count = 60;

template <class Integer>
Integer below(std::mt19937_64& random, Integer bound) {
  return static_cast<Integer>(random() % static_cast<std::uint64_t>(bound));
}

std::string random_key(std::mt19937_64& random) {
  std::string key(below(random, std::size_t{40}), '\0');
  for (char& c : key) c = static_cast<char>(random());
  return key;
}

bloom::FilterOptions random_options(std::mt19937_64& random) {
  constexpr double rates[] = {0.25, 0.1, 0.01, 0.001, 1e-6};
  constexpr std::uint64_t capacities[] = {1, 2, 10, 100, 5000};
  return {.error_rate = rates[below(random, std::size_t{5})],
          .capacity = capacities[below(random, std::size_t{5})],
          .expansion = below(random, std::uint32_t{5}),
          .seed = random()};
}

void add_random_filters(test::Filters& filters, std::mt19937_64& random) {
  for (std::size_t count = below(random, std::size_t{20}); count > 0; --count) {
    const std::uint32_t database = below(random, keyspace::database_count);
    const std::string key = random_key(random);
    if (sepal::test::filter_at(filters.keyspace, {.database = database, .key = key}) != nullptr) continue;
    const bloom::FilterOptions options = random_options(random);
    filters.add(database, key, below(random, 6 * options.capacity + 1), options);
  }
}

// Checks that both filters give the same answer for any item.
bool answers_alike(const bloom::Filter& a, const bloom::Filter& b, std::mt19937_64& random) {
  for (int i = 0; i < 50; ++i) {
    const std::string item = random_key(random);
    if (test::contains(a, item) != test::contains(b, item)) return false;
  }
  return true;
}

// Checks that no added item is missing.
bool keeps_items(const bloom::Filter& filter, const std::string& key, std::uint64_t items) {
  for (std::uint64_t i = 0; i < items; ++i)
    if (!test::contains(filter, key + "/" + std::to_string(i))) return false;
  return true;
}

}  // namespace

TEST_CASE("a load restores every bit and every answer of the saved filters") {
  for (std::uint64_t seed = 0; seed < case_count; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    test::Filters filters;
    add_random_filters(filters, random);
    test::SimulatedDisk disk;
    const DataDirectoryOptions options{.own_file_bytes_min = below(random, std::uint64_t{20'000})};
    auto directory = DataDirectory::open(disk, "data", 1, std::nullopt, options);
    REQUIRE(directory);
    REQUIRE((*directory)->save(filters.snapshot(), {}));
    directory->reset();

    const auto loaded = test::open_and_load(disk, "data");
    REQUIRE_FALSE(loaded.error);
    const auto cut = filters.keyspace.cut();
    REQUIRE(test::same(cut, loaded.filters));
    for (const auto& entry : cut) {
      const bloom::Filter& found = *loaded.filters.at({entry.database, entry.key});
      CHECK(found.item_count() == test::held_filter(entry.value)->item_count());
      CHECK(answers_alike(*test::held_filter(entry.value), found, random));
    }
  }
}

TEST_CASE("a loaded filter grows like the saved one, and loses nothing") {
  for (std::uint64_t seed = 0; seed < case_count; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    bloom::FilterOptions options = random_options(random);
    options.expansion = 2 + below(random, std::uint32_t{3});
    const std::uint64_t before = below(random, std::uint64_t{400});
    const std::uint64_t after = before + below(random, std::uint64_t{400});

    test::Filters filters;
    filters.add(0, "key", before, options);
    test::SimulatedDisk disk;
    auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
    REQUIRE(directory);
    REQUIRE((*directory)->save(filters.snapshot(), {}));
    const auto loaded = test::load(**directory);
    REQUIRE(loaded.filters.size() == 1);
    bloom::Filter& found = *loaded.filters.begin()->second;
    bloom::Filter& original = *sepal::test::filter_at(filters.keyspace, {.database = 0, .key = "key"});
    for (std::uint64_t i = before; i < after; ++i) {
      const std::string item = "key/" + std::to_string(i);
      const auto there = found.add_alone(item, test::roomy);
      CHECK(there.added == original.add_alone(item, test::roomy).added);
    }
    CHECK(test::same(original, found));
    CHECK(keeps_items(found, "key", after));
  }
}

namespace {

// The keyspace that a daemon would load from the disk.
test::LoadOutcome loaded_elsewhere(const test::SimulatedDisk& disk) {
  test::SimulatedDisk copy;
  for (const auto& [path, contents] : disk.files())
    if (!path.ends_with("LOCK")) copy.put(path, contents);
  return test::open_and_load(copy, "data");
}

void change_something(test::Filters& filters, std::mt19937_64& random) {
  const auto any_key = [&] { return std::to_string(below(random, 6)); };
  const std::string key = any_key();
  bloom::Filter* const present = sepal::test::filter_at(filters.keyspace, {.database = 0, .key = key});
  switch (below(random, 5)) {
    case 0:
      if (present != nullptr) static_cast<void>(filters.keyspace.rename(0, key, any_key()));
      break;
    case 1: static_cast<void>(filters.keyspace.remove({.database = 0, .key = key})); break;
    case 2:
      if (present != nullptr)
        static_cast<void>(
            sepal::writers::add_alone(filters.keyspace, 0, *present, std::to_string(random() % 64)));
      break;
    default:
      if (present == nullptr)
        filters.add(0, key, 20,
                    {.error_rate = 0.01, .capacity = 20 + 5000 * below(random, std::uint64_t{2}), .seed = 1});
  }
}

}  // namespace

TEST_CASE("each save holds the keyspace of its instant, whatever changed and whatever was linked") {
  std::uint64_t linked_bytes = 0;
  for (std::uint64_t seed = 0; seed < case_count; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    test::Filters filters;
    test::SimulatedDisk disk;
    auto directory = DataDirectory::open(disk, "data", 1, std::nullopt, {.own_file_bytes_min = 5000});
    REQUIRE(directory);
    for (int save = 0; save < 12; ++save) {
      for (int changes = below(random, 6); changes > 0; --changes) change_something(filters, random);
      // One save in four fails somewhere.
      if (below(random, 4) == 0) disk.fail_at(disk.operation_count() + 1 + random() % 30, Errc::io);
      const auto report = (*directory)->save(filters.snapshot(), {});
      disk.stop_failing();
      if (!report) continue;
      linked_bytes += report->linked_bytes;
      const auto loaded = loaded_elsewhere(disk);
      REQUIRE_FALSE(loaded.error);
      REQUIRE(test::same(filters.keyspace.cut(), loaded.filters));
    }
  }
  CHECK(linked_bytes > 0);
}

}  // namespace save_load_test
