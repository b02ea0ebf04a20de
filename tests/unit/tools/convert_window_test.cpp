// Filters with a window in RDB files.
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/strings/kind.hpp>
#include <sepal/value/image.hpp>

#include <chrono>

#include "support/converted.hpp"

namespace convert_window_test {

namespace {

using namespace sepal;
using bloom::WindowFilter;
using test::begun;
using test::convert_file;
using test::plenty;
using test::RdbText;
using test::SimulatedDisk;
using tools::ConvertRequest;

constexpr WallTime first_time{std::chrono::hours(500'000)};

// Has further layers if `item_count` is above the capacity. The items come in three generations.
value::ValuePtr window(const bloom::WindowOptions& options, std::uint64_t item_count) {
  auto filter = *WindowFilter::create(options, *bloom::plan_window(options, plenty.bytes_max), first_time);
  std::vector<WindowFilter::AddOutcome> outcomes;
  WallTime time = first_time;
  for (std::uint64_t i = 0; i < item_count; ++i) {
    if (i == item_count / 3 || i == item_count / 3 * 2)
      time += std::chrono::milliseconds(options.milliseconds / options.generations);
    const std::string item = std::to_string(i);
    const std::string_view items[] = {item};
    (void)filter->add_each(items, time, WindowFilter::Refusal::full, outcomes, nullptr);
    if (outcomes.back().refusal == WindowFilter::Refusal::full)
      REQUIRE(filter->grow(time, plenty, {}) == WindowFilter::Refusal::none);
  }
  return filter;
}

std::string refusal_of(std::string_view head, std::string_view piece, int encoding = bloom::sepal_encoding) {
  RdbText text = begun();
  text.bytes += "\x07\x05wrong";
  text.length(value::module_id(bloom::window_type_name, encoding));
  text.string(head);
  text.string(piece);
  text.length(0);
  append_saved(text, "right", window({.capacity = 100, .milliseconds = 60'000}, 10));
  SimulatedDisk disk;
  put(disk, text);
  const auto report = convert_file(disk, ConvertRequest::Output::data_directory);
  REQUIRE(report);
  CHECK(report->keys.filters == 1);
  CHECK(report->keys.refused_keys == std::vector<std::string>{"3:wrong"});
  REQUIRE(report->keys.refused.size() == 1);
  return report->keys.refused.begin()->first;
}

}  // namespace

TEST_CASE("filters with a window that sepal.so has saved are what they were") {
  const std::map<std::string, value::ValuePtr> saved{
      {"empty", window({.capacity = 1000, .milliseconds = 60'000}, 0)},
      {"grown", window({.capacity = 1000, .milliseconds = 60'000, .refresh = true}, 20'000)},
      {"last", window({.capacity = 1000, .milliseconds = 0, .generations = 16}, 5000)},
      {"large", window({.capacity = 2'000'000, .milliseconds = 60'000, .seed = 7}, 50'000)}};
  REQUIRE(value::as<WindowFilter>(*saved.at("grown")).layer_count() > 1);
  RdbText text = begun();
  text.bytes += std::string("\xfc") + std::string("\0\0\0\0\0\0\0\x7f", 8);
  for (const auto& [key, value] : saved) append_saved(text, key, value);
  SimulatedDisk disk;
  put(disk, text);
  const auto report = convert_file(disk, ConvertRequest::Output::data_directory);
  REQUIRE(report);
  CHECK(report->keys.filters == 4);
  CHECK(report->keys.refused.empty());
  std::uint64_t items = 0;
  for (const auto& [key, value] : saved) items += value::as<WindowFilter>(*value).item_count();
  CHECK(report->keys.items == items);
  const test::Loaded loaded = test::load(disk);
  REQUIRE(loaded.values.size() == 4);
  for (const auto& [key, value] : saved) CHECK(test::same(*value, *loaded.values.at(key)));
  CHECK(loaded.deadlines.at("empty") == std::int64_t{0x7f} << 56);
  CHECK(loaded.deadlines.at("grown") == keyspace::no_deadline);
}

TEST_CASE("a value of sepal.so that is no filter with a window is left out, and the next key is read") {
  const auto bytes_of_head = [](const auto& head) {
    return std::string(reinterpret_cast<const char*>(head.data()), head.size());
  };
  CHECK(refusal_of(bytes_of_head(strings::image_head(8)), "12345678") == "this is no filter with a window");
  CHECK(refusal_of("no head", "12345678") == "this is no value of Sepal");
  auto image = value::image_of(*window({.capacity = 100, .milliseconds = 60'000}, 50));
  image.resize(bloom::window_row.read_head(image, 64)->head_bytes);
  CHECK(refusal_of(bytes_of_head(image), "1234567") == "this is no windowed filter");
  CHECK(refusal_of(bytes_of_head(image), "1234567", bloom::sepal_encoding + 1) ==
        "an unknown version of RedisBloom or Sepal wrote it");
}

TEST_CASE("a filter file holds no filter with a window, and the report says so") {
  RdbText text = begun();
  append_saved(text, "k", window({.capacity = 100, .milliseconds = 60'000}, 10));
  SimulatedDisk disk;
  put(disk, text);
  const auto report = convert_file(disk, ConvertRequest::Output::filter_files);
  REQUIRE(report);
  CHECK(report->keys.filters == 0);
  CHECK(report->keys.refused.at(
            "a filter file holds a Bloom filter without a window, and this one has a window") == 1);
  CHECK(disk.list("out")->empty());
}

}  // namespace convert_window_test
