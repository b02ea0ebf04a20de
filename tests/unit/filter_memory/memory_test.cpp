// Filters in the memory of a host. A process chooses the allocator once, so this is a program of its own.
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/cuckoo/foreign/redis_table.hpp>
#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/value/heap.hpp>
#include <sepal/value/image.hpp>

#include "support/catch.hpp"

namespace filter_memory_test {

using sepal::Errc;
using sepal::bloom::Filter;
using sepal::bloom::FilterOptions;

// What the host has given, and the sum of it.
std::map<void*, std::size_t> given;
std::size_t given_bytes = 0;
bool refuses = false;

void* allocate(std::size_t byte_count) {
  if (refuses) return nullptr;
  // At an address that is no multiple of a cache line.
  void* const allocated = std::calloc(1, byte_count);
  given[allocated] = byte_count;
  given_bytes += byte_count;
  return allocated;
}

void release(void* allocated) {
  const auto found = given.find(allocated);
  REQUIRE(found != given.end());
  given_bytes -= found->second;
  given.erase(found);
  std::free(allocated);
}

void use_host() {
  if (!sepal::value::host_allocates())
    sepal::value::use_allocator({.allocate = allocate, .release = release});
}

TEST_CASE("small and large filters are in the memory of the host") {
  use_host();
  for (const std::uint64_t capacity : {100U, 10'000U, 300'000U, 10'000'000U}) {
    const FilterOptions options{.error_rate = 0.01, .capacity = capacity, .expansion = 2};
    auto filter = Filter::create(options, {.bytes_max = 1 << 30});
    REQUIRE(filter);
    // byte_count() says what the system takes. That is a little more than what is asked for, and shards are
    // not of the host.
    const auto bytes = static_cast<double>((*filter)->byte_count());
    CHECK(static_cast<double>(given_bytes) <= bytes);
    CHECK(static_cast<double>(given_bytes) > 0.9 * bytes - 4096);
    for (std::uint64_t i = 0; i < 200; ++i) {
      const std::string item = std::to_string(i);
      const std::string_view view = item;
      CHECK_FALSE((*filter)->add_alone(item, {.bytes_max = 1 << 30}).refusal != Filter::Refusal::none);
      bool known = false;
      (*filter)->contains({&view, 1}, {&known, 1});
      CHECK(known);
    }
    // Nothing is moved into huge pages: the memory is the host's.
    CHECK_FALSE((*filter)->fresh());
    CHECK_FALSE((*filter)->newest_layer().fresh());
    (*filter).reset();
    CHECK(given_bytes == 0);
  }
  refuses = true;
  for (const std::uint64_t capacity : {100U, 10'000'000U}) {
    const auto filter = Filter::create({.capacity = capacity}, {.bytes_max = 1 << 30});
    REQUIRE_FALSE(filter);
    CHECK(filter.error().code == Errc::out_of_memory);
  }
  refuses = false;
}

TEST_CASE("a cuckoo filter of RedisBloom is in the memory of the host, and stays as it is without memory") {
  use_host();
  using sepal::cuckoo::RedisTable;
  const auto header = sepal::cuckoo::redis_header_of({.capacity = 1024});
  const sepal::value::Limits limits{.bytes_max = 1 << 30, .layers_max = 32};
  {
    auto table = RedisTable::make(header, limits);
    REQUIRE(table);
    CHECK(given_bytes >= 1024);
    for (int i = 0; i < 4; ++i) REQUIRE(table->add("a", limits) == RedisTable::Added::added);
    refuses = true;
    CHECK(table->add("a", limits) == RedisTable::Added::out_of_memory);
    CHECK(table->header().layer_count == 1);
    CHECK(table->count("a") == 4);
    CHECK(table->add("b", limits) == RedisTable::Added::added);
    refuses = false;
    CHECK(table->add("a", limits) == RedisTable::Added::added);
    CHECK(table->header().layer_count == 2);
    CHECK(given_bytes >= 2048);
    CHECK(given_bytes <= table->allocated_bytes());
    // A reader keeps the memory of a layer that the filter drops.
    const sepal::cuckoo::RedisSlotsPtr newest = table->memory(1);
    REQUIRE(table->remove("a"));
    CHECK(table->header().layer_count == 1);
    CHECK(given_bytes >= 2048);
  }
  CHECK(given_bytes == 0);
  refuses = true;
  const auto none = RedisTable::make(header, limits);
  refuses = false;
  REQUIRE(!none);
  CHECK(none.error().code == Errc::out_of_memory);
}

TEST_CASE("a body that is whole is not called damaged where there is no memory to check it") {
  use_host();
  const sepal::value::Limits limits{.bytes_max = 1 << 30, .layers_max = 32};
  auto filter = sepal::cuckoo::Filter::create(*sepal::cuckoo::plan({.capacity = 1000}, limits.bytes_max));
  REQUIRE(filter);
  sepal::cuckoo::OwnMemory memory;
  std::vector<sepal::cuckoo::Filter::AddOutcome> outcomes;
  const std::string_view items[] = {"a"};
  REQUIRE((*filter)->add(items, sepal::cuckoo::Filter::AddIf::always, memory, outcomes, nullptr));
  const std::vector<std::byte> image = sepal::value::image_of(**filter);
  const sepal::value::KindRow& row = sepal::value::row_of(**filter);
  const auto shape = row.read_head(image, limits.layers_max);
  REQUIRE(shape);
  const auto made = row.make(image, limits, sepal::value::FilledBy::load);
  REQUIRE(made);
  row.fill_body(**made, 0, std::span(image).subspan(shape->head_bytes));
  refuses = true;
  const auto whole = row.complete(**made);
  refuses = false;
  REQUIRE(!whole);
  CHECK(whole.error().code == Errc::out_of_memory);
}

}  // namespace filter_memory_test
