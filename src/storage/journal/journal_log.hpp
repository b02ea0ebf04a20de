// A worker's log in the journal.
//
// Under the shared gate each add becomes a frame at once. Changes of keys gather until append(), or until an
// add has to come behind them. With the gate closed, operations gather until commit(). A full frame is
// appended in any case. Between begin_group() and end_group() they gather in memory, however many frames they
// fill, and become one group of frames.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/spin_lock.hpp>
#include <sepal/keyspace/mutation_log.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "storage/format/operation_encoder.hpp"
#include "storage/journal/journal_core.hpp"

namespace sepal::storage {

// Counts the beginnings and ends of a worker's adds: odd between begin_add() and added(). Other workers read
// it in seal_record(), so it has a cache line of its own.
struct alignas(64) AddCount {
  std::atomic<std::uint64_t> value{0};
};

class JournalLog final : public keyspace::WorkerLog {
 public:
  // `add_counts` has one count for each log; `own` is the index of this log's count. `room_max` says, without
  // a lock of the journal, how much room one request can get.
  // `logs` will have all logs.
  JournalLog(JournalCore& core, std::span<AddCount> add_counts,
             const std::vector<std::unique_ptr<JournalLog>>& logs, std::size_t own,
             std::function<std::uint64_t()> room_max)
      : core_(core), add_counts_(add_counts), logs_(logs), own_(own), room_max_(std::move(room_max)) {
    SEPAL_ASSERT(own_ < add_counts_.size(), "the log of a worker has no count of its adds");
  }

  [[nodiscard]] bool recording() const override { return core_.policy() != JournalPolicy::off; }
  void begin_add() override;
  void added_some(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override;
  void added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override;
  void wait_for_adds() override;
  void gather(const keyspace::Mutation& change) override;
  void gather_added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override;
  void gathered_all(const value::Value& made) override;
  void append() override;
  void append_others() override;
  void record(const keyspace::Mutation& change) override;

  using WorkerLog::admit;
  [[nodiscard]] keyspace::Admission admit(std::uint64_t bytes_max, keyspace::Change change) override;
  void commit() override;
  void begin_group() override;
  void end_group() override;
  [[nodiscard]] std::uint64_t seal_record(bool answered_known) override;

  // Called with the gate closed.
  void release_reserve() {
    SEPAL_ASSERT(pending_.empty() && !in_group_, "a log gives back the room of what it has not recorded yet");
    core_.release(reserve_);
  }

 private:
  [[nodiscard]] keyspace::Admission admit_now(std::uint64_t bytes_max, keyspace::Change change);
  void add_to_frame(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints, bool gather);
  void make_room_in_frame(std::uint64_t operation_bytes_max);
  void make_room_for_items(keyspace::DatabaseKey key, std::size_t count);
  void make_room(std::uint64_t operation_bytes_max, std::uint64_t frame_bytes_max);
  void append_frame();
  void end_frame();

  JournalCore& core_;
  std::span<AddCount> add_counts_;
  const std::vector<std::unique_ptr<JournalLog>>& logs_;
  std::size_t own_;
  std::function<std::uint64_t()> room_max_;
  std::uint64_t reserve_ = 0;  // room of the journal that this worker has reserved
  OperationEncoder pending_;   // inside the shared gate: what has gathered
  bool in_group_ = false;
  std::vector<std::vector<std::byte>> group_;  // the full frames of the group, without the pending one
  std::uint64_t group_bytes_ = 0;              // the room that these frames take
  // While something has gathered, other workers may append it. Then pending_, reserve_ and made_ belong to
  // the one that has the lock; else to this log's worker. Only that worker makes it true. Lock order: behind
  // that of a key; the journal's is taken inside it.
  std::atomic<bool> gathered_{false};
  // A frame is appended inside it. Who waits meanwhile gives up its core again and again, as in
  // wait_for_adds(). A Mutex would take 50 instructions more each time, 3 times for a key that is made.
  SpinLock gathering_;
  std::vector<const value::Value*> made_;  // values whose records have gathered
};

}  // namespace sepal::storage
