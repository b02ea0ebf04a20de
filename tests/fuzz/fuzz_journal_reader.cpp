// Feeds arbitrary data directories to the reader of the journal and to the code that applies it.
//
// An input is a container of files (support/generation_files.hpp): segments, and maybe a generation. Its mode
// may ask for right checksums, so that the reader gets past them. If a start accepts an input, the next start
// must give the same keyspace, without the part that was cut off. The corpus holds real journals, which the
// hidden test "write the corpus of journals" makes.
#include <sepal/base/gate.hpp>
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/replay/replay.hpp>

#include <cstdint>
#include <cstdlib>

#include "../support/generation_files.hpp"
#include "../support/journal_files.hpp"
#include "../support/simulated_disk.hpp"
#include "../support/storage_fixture.hpp"
#include "../support/values.hpp"
#include "fuzz_target.hpp"

namespace sepal::fuzz_journal_reader_test {
namespace {

constexpr bloom::FilterLimits limits{.bytes_max = std::uint64_t{1} << 20, .layers_max = 16};

void require(bool claim) {
  if (!claim) std::abort();
}

struct Machine {
  test::FreeingHousekeeper housekeeper;
  static constexpr keyspace::KeyspaceOptions options{.machine_bytes = std::uint64_t{1} << 20};
  keyspace::Keyspace keyspace{options, housekeeper};
  Gate gate{1};
};

Result<storage::ReplayReport> start(test::SimulatedDisk& disk, Machine& machine) {
  auto directory = storage::DataDirectory::open(disk, "data", 1, std::nullopt);
  if (!directory) return directory.error();
  storage::ValuePositions positions;
  const auto take = [&](std::span<storage::LoadedValue> filters) {
    for (storage::LoadedValue& loaded : filters) {
      positions.note(loaded, *loaded.value);
      const keyspace::DatabaseKey key{.database = loaded.database, .key = loaded.key};
      if (auto put = machine.keyspace.put(key, loaded.value, loaded.deadline); !put) return put;
      loaded.value = nullptr;
    }
    return Result<void>();
  };
  const auto loaded = (*directory)->load(limits, take, {});
  if (!loaded) return loaded.error();
  return storage::replay_journal(disk, "data", machine.keyspace, machine.gate,
                                 {.cut = loaded->journal_position, .positions = std::move(positions)}, {});
}

void run(const test::Container& container) {
  test::SimulatedDisk disk;
  for (const auto& [path, contents] : container.files) disk.put("data/" + path, contents);
  for (const auto& [path, contents] : container.files)
    static_cast<void>(storage::inspect_file(disk, "data/" + path, [](const storage::Fact&) {}));
  Machine machine;
  const auto report = start(disk, machine);
  if (!report) return require(!report.error().detail.empty());
  require(storage::remove_beyond(disk, "data", *report).ok());
  Machine again;
  const auto second = start(disk, again);
  require(second.ok() && second->position == report->position && second->beyond.empty());
  std::map<std::pair<std::uint32_t, std::string>, value::ValuePtr> values;
  for (auto& entry : again.keyspace.cut()) values[{entry.database, entry.key}] = entry.value;
  require(test::same(machine.keyspace.cut(), values));
}

}  // namespace

SEPAL_FUZZ_TARGET(fuzz_journal_reader) {
  test::Container container = test::unpack(std::as_bytes(std::span(data, size)));
  test::drop_odd_names(container);
  if ((container.mode & test::mode_reseal) != 0) {
    test::reseal(container.files, container.mode);
    for (auto& [path, contents] : container.files) test::reseal_segment(path, contents);
  }
  run(container);
  return 0;
}

}  // namespace sepal::fuzz_journal_reader_test
