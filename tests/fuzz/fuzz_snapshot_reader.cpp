// Feeds arbitrary data directories to the reader of generations.
//
// An input is a container of files (support/generation_files.hpp). Its mode may ask for right checksums,
// seals and lengths, so that the reader gets past them. A keyspace that a load accepts must answer look-ups,
// take items, and survive a save and a load unchanged. The corpus holds real generations, which the hidden
// test "write the corpus" makes.
#include <sepal/storage/generation/data_directory.hpp>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "../support/generation_files.hpp"
#include "../support/simulated_disk.hpp"
#include "../support/storage_fixture.hpp"
#include "fuzz_target.hpp"

namespace sepal::fuzz_snapshot_reader_test {
namespace {

constexpr bloom::FilterLimits limits{.bytes_max = std::uint64_t{1} << 20, .layers_max = 16};

void require(bool claim) {
  if (!claim) std::abort();
}

void use(test::Filters& filters, const test::FilterMap& loaded) {
  for (const auto& [name, filter] : loaded) {
    const std::string_view item = "item";
    static_cast<void>(test::contains(*filter, item));
    const auto outcome = filter->add_alone(item, limits);
    require(outcome.refusal != bloom::Filter::Refusal::none || test::contains(*filter, item));
    require(filters.keyspace.put({.database = name.first, .key = name.second}, filter).ok());
  }
}

void run(const test::Container& container) {
  test::SimulatedDisk disk;
  for (const auto& [path, contents] : container.files) disk.put("data/" + path, contents);
  auto directory = storage::DataDirectory::open(disk, "data", 1, std::nullopt);
  if (!directory) return require(!directory.error().detail.empty());
  const test::LoadOutcome loaded = test::load(**directory, limits);
  if (loaded.error) return require(!loaded.error->detail.empty());
  test::Filters filters;
  use(filters, loaded.filters);
  require((*directory)->save(filters.snapshot(), {}).ok());
  const test::LoadOutcome again = test::load(**directory);
  require(!again.error && test::same(filters.keyspace.cut(), again.filters));
}

}  // namespace

SEPAL_FUZZ_TARGET(fuzz_snapshot_reader) {
  test::Container container = test::unpack(std::as_bytes(std::span(data, size)));
  test::drop_odd_names(container);
  if ((container.mode & test::mode_reseal) != 0) test::reseal(container.files, container.mode);
  run(container);
  return 0;
}

}  // namespace sepal::fuzz_snapshot_reader_test
