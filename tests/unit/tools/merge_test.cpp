#include "tools/build/merge.hpp"

#include <sepal/bloom/foreign/client_bitmap.hpp>
#include <sepal/storage/generation/filter_file.hpp>

#include "support/bitmap_of_bytes.hpp"
#include "support/catch.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"
#include "tools/build/filter_output.hpp"

namespace merge_test {

using namespace sepal;
using namespace sepal::tools;
using test::SimulatedDisk;

namespace {

using bloom::FilterOptions;

constexpr FilterOptions usual{.error_rate = 0.01, .capacity = 10000, .expansion = 0, .seed = 3};

// A test shows no progress.
Progress& silent() {
  static Progress progress(nullptr, Progress::Style::none);
  return progress;
}

// Holds the items first, first + 1, ...
void put_filter(SimulatedDisk& disk, const storage::Path& path, const FilterOptions& options, int first,
                int count) {
  auto filter = bloom::Filter::create(options, test::roomy);
  REQUIRE(filter);
  for (int i = first; i < first + count; ++i)
    static_cast<void>((*filter)->add_alone("item " + std::to_string(i), test::roomy));
  disk.put(path, {});
  REQUIRE(write_filter(disk, path,
                       {.key = path.stem(), .filter = *filter, .header = bloom::header_of(**filter)}, {}));
}

// A client's bitmap that is said to have room for so many items, and to be full.
void put_bitmap(SimulatedDisk& disk, const storage::Path& path, std::uint64_t item_count) {
  const auto filter = bloom::filter_of_bitmap(
      test::BitmapOfBytes(std::string(120, 'U')),
      {.bits = {.scheme = bloom::Scheme::murmur3_128, .bit_count = 960, .probe_count = 4, .first_seed = 0},
       .capacity = item_count,
       .error_rate = 0.01},
      test::roomy, {});
  REQUIRE(filter);
  bloom::ImageHeader header = bloom::header_of(**filter);
  header.layers[0].item_count = item_count;
  disk.put(path, {});
  REQUIRE(write_filter(disk, path, {.key = path.stem(), .filter = *filter, .header = header}, {}));
}

Result<MergeReport> merge_files(SimulatedDisk& disk, const std::vector<storage::Path>& inputs) {
  return merge(disk, {.inputs = inputs, .output = "out/c", .key = {}}, silent());
}

}  // namespace

TEST_CASE("a merged filter holds the items of all, and estimates their number") {
  SimulatedDisk disk;
  put_filter(disk, "out/a", usual, 0, 4000);
  put_filter(disk, "out/b", usual, 3000, 4000);  // a quarter of the items is in both
  const auto report = merge_files(disk, {"out/a", "out/b"});
  REQUIRE(report);
  CHECK(std::abs(static_cast<double>(report->item_estimate) - 7000) < 200);
  CHECK(report->item_sum > 7900);
  const auto merged = storage::read_filter_file(disk, "out/c", test::roomy, {});
  REQUIRE(merged);
  CHECK(merged->key == "a");
  CHECK(test::held_filter(merged->value)->item_count() == report->item_estimate);
  for (int i = 0; i < 7000; ++i)
    REQUIRE(test::contains(*test::held_filter(merged->value), "item " + std::to_string(i)));
}

TEST_CASE("a filter that was filled in parts keeps its capacity when the parts are merged") {
  SimulatedDisk disk;
  put_filter(disk, "out/a", usual, 0, 5000);
  put_filter(disk, "out/b", usual, 5000, 5000);
  const auto report = merge_files(disk, {"out/a", "out/b"});
  REQUIRE(report);
  CHECK(report->item_estimate <= usual.capacity);
  CHECK(report->item_estimate > usual.capacity * 95 / 100);
}

TEST_CASE("merging a filter with itself changes only the estimate") {
  SimulatedDisk disk;
  put_filter(disk, "out/a", usual, 0, 10000);
  const auto report = merge_files(disk, {"out/a", "out/a"});
  REQUIRE(report);
  const auto before = storage::read_filter_file(disk, "out/a", test::roomy, {});
  const auto merged = storage::read_filter_file(disk, "out/c", test::roomy, {});
  REQUIRE(before);
  REQUIRE(merged);
  CHECK(test::bits_of(test::held_filter(merged->value)->newest_layer()) ==
        test::bits_of(test::held_filter(before->value)->newest_layer()));
  CHECK(report->item_estimate >= test::held_filter(before->value)->item_count());
}

TEST_CASE("filters that together exceed their capacity are not merged") {
  SimulatedDisk disk;
  put_filter(disk, "out/a", usual, 0, 9000);
  put_filter(disk, "out/b", usual, 9000, 9000);
  const auto report = merge_files(disk, {"out/a", "out/b"});
  REQUIRE_FALSE(report);
  CHECK(report.error().code == Errc::out_of_range);
  CHECK(report.error().detail.find(" k different items in a layer for 10000") != std::string::npos);
  CHECK(disk.files().count("out/c") == 0);
}

TEST_CASE("filters of another seed or shape are not merged, and the difference is named") {
  const std::pair<FilterOptions, std::string> others[] = {
      {{.error_rate = 0.01, .capacity = 10000, .expansion = 0, .seed = 4}, "seeds"},
      {{.error_rate = 0.02, .capacity = 10000, .expansion = 0, .seed = 3}, "error rates: 0.01 and 0.02"},
      {{.error_rate = 0.01, .capacity = 10001, .expansion = 0, .seed = 3}, "capacities: 10000 and 10001"},
      {{.error_rate = 0.01, .capacity = 10000, .expansion = 2, .seed = 3}, "expansions: 0 and 2"},
  };
  for (const auto& [options, difference] : others) {
    SimulatedDisk disk;
    put_filter(disk, "out/a", usual, 0, 10);
    put_filter(disk, "out/b", options, 0, 10);
    const auto report = merge_files(disk, {"out/a", "out/b"});
    REQUIRE_FALSE(report);
    CHECK(report.error().detail.find("out/b cannot be merged with out/a: filters have different " +
                                     difference) == 0);
  }
}

TEST_CASE("filters that grew are merged layer by layer") {
  const FilterOptions growing{.error_rate = 0.01, .capacity = 1000, .expansion = 4, .seed = 3};
  SimulatedDisk disk;
  put_filter(disk, "out/a", growing, 0, 2000);
  put_filter(disk, "out/b", growing, 0, 1900);
  const auto report = merge_files(disk, {"out/a", "out/b"});
  REQUIRE(report);
  const auto merged = storage::read_filter_file(disk, "out/c", test::roomy, {});
  REQUIRE(merged);
  CHECK(test::held_filter(merged->value)->layer_count() == 2);
  for (int i = 0; i < 2000; ++i)
    REQUIRE(test::contains(*test::held_filter(merged->value), "item " + std::to_string(i)));
}

TEST_CASE("counts of items whose sum is beyond 64 bits do not wrap") {
  SimulatedDisk disk;
  put_bitmap(disk, "out/a", std::uint64_t{1} << 63);
  const auto report = merge_files(disk, {"out/a", "out/a"});
  REQUIRE(report);
  CHECK(report->item_sum == std::numeric_limits<std::uint64_t>::max());
  CHECK(report->item_estimate == std::uint64_t{1} << 63);
  const auto merged = storage::read_filter_file(disk, "out/c", test::roomy, {});
  REQUIRE(merged);
  CHECK(test::held_filter(merged->value)->item_count() == std::uint64_t{1} << 63);
}

}  // namespace merge_test
