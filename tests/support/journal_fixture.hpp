// A journal on a simulated disk, without a thread: a test calls work() in the place of the thread.
#pragma once

#include <sepal/storage/journal/journal.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "catch.hpp"
#include "journal_bytes.hpp"
#include "simulated_disk.hpp"
#include "storage_fixture.hpp"

namespace sepal::test {

inline constexpr std::uint64_t small_segment_bytes = std::uint64_t{16} << 10;
inline constexpr std::uint64_t small_segment_room =
    small_segment_bytes - sizeof(storage::format::SegmentHeader);
inline constexpr storage::JournalOptions small_journal{.policy = storage::JournalPolicy::everysec,
                                                       .segment_bytes = small_segment_bytes,
                                                       .first_segment_bytes = small_segment_bytes,
                                                       .segments_ahead = 2,
                                                       .sync_interval = std::chrono::milliseconds(1),
                                                       .threaded = false};

inline storage::JournalOptions with_policy(storage::JournalPolicy policy) {
  storage::JournalOptions options = small_journal;
  options.policy = policy;
  return options;
}

// The bytes of an add of so many fingerprints to a key of three bytes.
constexpr std::uint64_t add_bytes(std::size_t count) {
  return storage::format::frame_bytes(sizeof(storage::format::OperationHead) + 3 +
                                      count * sizeof(Fingerprint));
}

inline std::vector<Fingerprint> fingerprints_from(std::uint64_t first, std::size_t count) {
  std::vector<Fingerprint> fingerprints(count);
  for (std::size_t i = 0; i < count; ++i) fingerprints[i] = {.low = first + i, .high = ~(first + i)};
  return fingerprints;
}

inline std::vector<std::uint64_t> numbers_from(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

struct JournalFixture {
  static constexpr const char* directory = "d";
  static constexpr keyspace::DatabaseKey key{.database = 3, .key = "key"};

  SimulatedDisk disk;
  std::unique_ptr<storage::Journal> journal;
  int progress_count = 0;
  int asked_count = 0;  // how often the journal asked for a save

  JournalFixture() {
    REQUIRE(disk.make_directory(directory));
    REQUIRE(disk.sync_directory(""));
  }
  // An observer may refer to variables of its test, and the journal still writes when it is destroyed.
  ~JournalFixture() { disk.set_observer({}); }
  JournalFixture(const JournalFixture&) = delete;
  JournalFixture& operator=(const JournalFixture&) = delete;

  Result<void> try_open(const storage::JournalOptions& options = small_journal, std::uint64_t position = 0,
                        std::size_t worker_count = 1) {
    auto opened = storage::Journal::open(
        disk, directory, position, worker_count, options,
        {.on_progress = [this] { ++progress_count; }, .on_save_needed = [this] { ++asked_count; }});
    if (!opened) return opened.error();
    journal = std::move(*opened);
    return {};
  }
  void open(const storage::JournalOptions& options = small_journal, std::uint64_t position = 0,
            std::size_t worker_count = 1) {
    REQUIRE(try_open(options, position, worker_count));
    journal->work();
  }

  [[nodiscard]] keyspace::WorkerLog& log(std::size_t worker = 0) const { return journal->log(worker); }

  // Adds as a worker does. False if the add is refused or put off.
  bool add(std::uint64_t first, std::size_t count = 1, std::size_t worker = 0) {
    if (log(worker).admit(add_bytes(count)) != keyspace::Admission::granted) return false;
    log(worker).begin_add();
    log(worker).added(key, fingerprints_from(first, count));
    return true;
  }
  // Adds until no further add is admitted. Returns the number of adds.
  std::uint64_t fill(std::size_t count = 1) {
    std::uint64_t adds = 0;
    while (add(adds * count, count)) ++adds;
    return adds;
  }

  [[nodiscard]] std::vector<JournalFile> segments() const { return journal_files(disk.files(), directory); }
  [[nodiscard]] std::vector<JournalOperation> operations() const { return operations_of(segments()); }
  // The low halves of all recorded fingerprints, in order.
  [[nodiscard]] std::vector<std::uint64_t> added() const {
    std::vector<std::uint64_t> all;
    for (const JournalOperation& operation : operations())
      for (const Fingerprint& fingerprint : operation.fingerprints) all.push_back(fingerprint.low);
    return all;
  }
  [[nodiscard]] std::vector<std::string> names() { return *disk.list(directory); }
};

}  // namespace sepal::test
