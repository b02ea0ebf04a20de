// What sepald does with a data directory, in one thread: a start, adds, saves and a stop, on any disk.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/storage/generation/adopted_files.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/journal/journal.hpp>
#include <sepal/storage/journal/reserve.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "storage_fixture.hpp"
#include "support/values.hpp"

namespace sepal::test {

class SmallServer {
 public:
  // Starts. `drawn` is the random number of this start.
  SmallServer(storage::Disk& disk, storage::Path directory, std::uint64_t drawn,
              storage::JournalPolicy policy = storage::JournalPolicy::everysec)
      : disk_(disk), path_(std::move(directory)) {
    if (auto started = start(drawn, policy); !started) error_ = started.error().detail;
  }
  ~SmallServer() {
    if (journal_) static_cast<void>(journal_->stop());
  }
  SmallServer(const SmallServer&) = delete;
  SmallServer& operator=(const SmallServer&) = delete;

  // Why it did not start; empty: it did.
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] keyspace::Keyspace& keyspace() { return filters_.keyspace; }
  [[nodiscard]] storage::Journal& journal() { return *journal_; }
  [[nodiscard]] storage::AdoptedFiles& adopted() { return *adopted_; }

  // Adds one item, to a new filter where the key names none.
  void add(const std::string& key, const std::string& item) {
    constexpr std::uint64_t bytes = 1024;  // more than both records take
    keyspace::WorkerLog& log = journal_->log(0);
    while (log.recording() && log.admit(bytes) == keyspace::Admission::later) journal_->work();
    keyspace::Mutator mutator(keyspace(), &log);
    const keyspace::DatabaseKey name{.database = 0, .key = key};
    if (sepal::test::filter_at(keyspace(), name) == nullptr)
      REQUIRE(sepal::writers::create(mutator, name, some_filter));
    std::vector<bloom::Filter::AddOutcome> outcomes;
    const std::string_view view = item;
    sepal::writers::add_alone(mutator, name, *sepal::test::filter_at(keyspace(), name), {&view, 1}, outcomes);
    log.commit();
    static_cast<void>(log.seal_record(true));
    journal_->work();
  }
  Result<void> save() {
    const auto saved = data_->save(storage::snapshot_of(keyspace(), some_time, journal_->position()), {});
    if (!saved) return saved.error();
    journal_->generation_saved(saved->journal_position);
    adopted_->generation_saved(saved->journal_position);
    journal_->work();
    return {};
  }
  [[nodiscard]] bool has(const std::string& key, const std::string& item) {
    const bloom::Filter* const found = sepal::test::filter_at(keyspace(), {.database = 0, .key = key});
    return found != nullptr && contains(*found, item);
  }
  [[nodiscard]] std::uint64_t key_count() { return keyspace().total_size(); }

 private:
  static constexpr bloom::FilterOptions some_filter{.error_rate = 0.01, .capacity = 100, .seed = 7};
  static constexpr std::uint64_t segment_bytes = std::uint64_t{16} << 10;
  static constexpr std::uint64_t reserve_bytes = std::uint64_t{64} << 10;

  Result<void> start(std::uint64_t drawn, storage::JournalPolicy policy) {
    auto data = storage::DataDirectory::open(disk_, path_, drawn, std::nullopt);
    if (!data) return data.error();
    storage::ReplayStart begin;
    const auto take = [&](std::span<storage::LoadedValue> filters) -> Result<void> {
      for (auto& loaded : filters) {
        begin.positions.note(loaded, *loaded.value);
        auto put = keyspace().put({loaded.database, loaded.key}, std::move(loaded.value), loaded.deadline);
        if (!put) return put;
      }
      return {};
    };
    const auto loaded = (*data)->load(roomy, take, {});
    if (!loaded) return loaded.error();
    begin.cut = loaded->journal_position;
    begin.mirrors = loaded->mirrors;
    begin.run = loaded->run;
    auto replayed = storage::replay_journal(disk_, path_, keyspace(), gate_, std::move(begin), {});
    if (!replayed) return replayed.error();
    if (auto removed = storage::remove_beyond(disk_, path_, *replayed); !removed) return removed;
    auto adopted = storage::AdoptedFiles::open(disk_, path_, std::move(replayed->named));
    if (!adopted) return adopted.error();
    auto reserve = storage::Reserve::open(disk_, path_, reserve_bytes);
    if (!reserve) return reserve.error();
    storage::Lineage lineage = (*data)->lineage();
    lineage.run_before = replayed->run;
    auto journal = storage::Journal::open(
        disk_, path_, replayed->position, 1,
        {.policy = policy, .segment_bytes = segment_bytes, .threaded = false, .lineage = lineage}, {},
        reserve->get());
    if (!journal) return journal.error();
    data_ = std::move(*data);
    adopted_ = std::move(*adopted);
    reserve_ = std::move(*reserve);
    journal_ = std::move(*journal);
    journal_->work();
    return {};
  }

  storage::Disk& disk_;
  storage::Path path_;
  Gate gate_{1};
  Filters filters_;
  std::unique_ptr<storage::DataDirectory> data_;
  std::unique_ptr<storage::AdoptedFiles> adopted_;
  std::unique_ptr<storage::Reserve> reserve_;
  std::unique_ptr<storage::Journal> journal_;
  std::string error_;
};

}  // namespace sepal::test
