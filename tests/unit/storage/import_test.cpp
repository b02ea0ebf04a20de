#include <sepal/bloom/filter/image.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/generation/streamed_filter.hpp>

#include "support/catch.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"

namespace import_test {

using namespace sepal;
using namespace sepal::storage;
using test::SimulatedDisk;

namespace {

constexpr std::uint64_t large_capacity = 10'000;

class NoBits final : public BitStream {
 public:
  Result<void> read(std::span<std::byte> into) override {
    std::ranges::fill(into, std::byte{0});
    return {};
  }
};

// A filter of a stream: an empty one that is said to have these items.
struct Given {
  // NOLINTNEXTLINE(google-explicit-constructor): most filters are named by their capacity alone.
  Given(std::uint64_t room, std::uint64_t items = 0) : capacity(room), item_count(items) {}

  std::uint64_t capacity = 0;
  std::uint64_t item_count = 0;
};

// The second pass may give other filters.
class Passes final : public FilterStream {
 public:
  Passes(std::vector<Given> first, std::vector<Given> second)
      : passes_{std::move(first), std::move(second)} {}

  Result<void> rewind() override {
    ++pass_;
    at_ = 0;
    return {};
  }
  Result<const StreamedFilter*> next() override {
    const std::vector<Given>& filters = passes_.at(pass_ - 1);
    if (at_ == filters.size()) return nullptr;
    filter_ = *bloom::Filter::create({.error_rate = 0.01, .capacity = filters[at_].capacity, .seed = 1},
                                     test::roomy);
    bloom::ImageHeader header = bloom::header_of(*filter_);
    header.layers[0].item_count = filters[at_].item_count;
    head_ = bloom::encode(header);
    key_ = "key " + std::to_string(++at_);
    streamed_ = {.database = 0,
                 .key = key_,
                 .head = head_,
                 .body_bytes = header.bitmap_bytes(),
                 .item_count = filters[at_ - 1].item_count,
                 .bits = &bits_};
    return &streamed_;
  }

 private:
  std::vector<std::vector<Given>> passes_;
  std::size_t pass_ = 0;
  std::size_t at_ = 0;
  sepal::bloom::FilterPtr filter_;
  std::vector<std::byte> head_;
  std::string key_;
  NoBits bits_;
  StreamedFilter streamed_;
};

Result<GenerationReport> import_of(SimulatedDisk& disk, std::vector<Given> first, std::vector<Given> second) {
  const auto directory = DataDirectory::open(disk, "data", 1, std::nullopt, {.own_file_bytes_min = 1000});
  REQUIRE(directory);
  Passes filters(std::move(first), std::move(second));
  return (*directory)->import_filters(filters, {}, {});
}

}  // namespace

TEST_CASE("an import writes the filters of a stream") {
  SimulatedDisk disk;
  const auto report = import_of(disk, {10, large_capacity, 20}, {10, large_capacity, 20});
  REQUIRE(report);
  CHECK(report->value_count == 3);
  const auto loaded = test::open_and_load(disk, "data");
  REQUIRE_FALSE(loaded.error);
  CHECK(loaded.filters.size() == 3);
}

TEST_CASE("an import of filters that change between its passes fails, and leaves nothing") {
  struct Change {
    std::vector<Given> first;
    std::vector<Given> second;
  };
  const auto [first, second] = GENERATE(
      Change{{10, large_capacity}, {}}, Change{{10, large_capacity}, {10}},
      Change{{10, large_capacity}, {large_capacity}}, Change{{10, large_capacity}, {10, large_capacity, 20}},
      Change{{10, large_capacity}, {10, 20}}, Change{{large_capacity, large_capacity}, {large_capacity, 10}},
      Change{{Given(10, 3), large_capacity}, {Given(10, 4), large_capacity}},
      Change{{10, Given(large_capacity, 500)}, {10, Given(large_capacity, 10)}}, Change{{10, 20}, {10, 500}});
  SimulatedDisk disk;
  const auto report = import_of(disk, first, second);
  REQUIRE_FALSE(report);
  CHECK(report.error().detail.find("the filters changed while they were read") != std::string::npos);
  for (const auto& [path, contents] : disk.files()) CHECK(path.find("generation") == std::string::npos);
}

}  // namespace import_test
