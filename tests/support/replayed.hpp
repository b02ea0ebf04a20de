// Replays journals that a test wrote.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/storage/replay/replay.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "journal_files.hpp"
#include "storage_fixture.hpp"
#include "support/file_text.hpp"
#include "support/values.hpp"

namespace sepal::test {

inline constexpr keyspace::DatabaseKey some_key{.database = 3, .key = "key"};
inline constexpr bloom::FilterOptions some_options{.error_rate = 0.01, .capacity = 100, .seed = 7};

inline bloom::LayerPlan first_layer(const bloom::FilterOptions& options = some_options) {
  return (*bloom::Filter::create(options, roomy))->newest_layer().plan();
}

inline void create(JournalFiles& journal, keyspace::DatabaseKey key = some_key) {
  journal.created(key, some_options, first_layer());
  journal.end_frame();
}

inline void add(JournalFiles& journal, std::uint64_t item, keyspace::DatabaseKey key = some_key) {
  const Fingerprint fingerprint = fingerprint_of("item " + std::to_string(item), some_options.seed);
  journal.added(key, {&fingerprint, 1});
  journal.end_frame();
}

struct Replayed {
  SimulatedDisk disk;
  std::map<std::string, int> reads;  // number of reads of each file
  Filters filters;
  std::optional<Error> error;
  storage::ReplayReport report;

  [[nodiscard]] std::uint64_t items(keyspace::DatabaseKey key = some_key) const {
    const bloom::Filter* const filter = sepal::test::filter_at(filters.keyspace, key);
    return filter == nullptr ? 0 : filter->item_count();
  }
};

inline std::unique_ptr<Replayed> replay(const JournalFiles& journal, storage::ReplayStart start = {}) {
  auto replayed = std::make_unique<Replayed>();
  journal.put(replayed->disk, "data");
  replayed->disk.set_observer(
      [&reads = replayed->reads](std::string_view operation, const storage::Path& path) {
        if (operation == "read") ++reads[path.filename().string()];
      });
  Gate gate(2);
  auto report =
      storage::replay_journal(replayed->disk, "data", replayed->filters.keyspace, gate, std::move(start), {});
  if (report) {
    replayed->report = std::move(*report);
  } else {
    replayed->error = report.error();
  }
  return replayed;
}

// A filter whose items have one frame each.
struct Sample {
  JournalFiles journal;
  std::vector<std::uint64_t> positions;  // positions of the frames with items

  explicit Sample(std::uint64_t items) {
    create(journal);
    for (std::uint64_t item = 0; item < items; ++item) {
      positions.push_back(journal.position());
      add(journal, item);
    }
  }
  [[nodiscard]] static std::size_t offset_of(std::uint64_t position) {
    return static_cast<std::size_t>(sizeof(storage::format::SegmentHeader) + position);
  }
  Bytes& newest() { return journal.files().rbegin()->second; }
};

}  // namespace sepal::test
