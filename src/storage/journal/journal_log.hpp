// A worker's log in the journal.
//
// Under the shared gate each add becomes a frame at once. With the gate closed, operations gather until
// commit(), or until they fill a frame. Between begin_group() and end_group() they gather in memory, however
// many frames they fill, and become one group of frames.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/keyspace/mutation_log.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  JournalLog(JournalCore& core, std::span<AddCount> add_counts, std::size_t own,
             std::function<std::uint64_t()> room_max)
      : core_(core), add_counts_(add_counts), own_(own), room_max_(std::move(room_max)) {
    SEPAL_ASSERT(own_ < add_counts_.size(), "the log of a worker has no count of its adds");
  }

  [[nodiscard]] bool recording() const override { return core_.policy() != JournalPolicy::off; }
  void begin_add() override;
  void added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override;
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
  void make_room_in_frame(std::uint64_t operation_bytes_max);
  void make_room_for_items(keyspace::DatabaseKey key, std::size_t count);
  void make_room(std::uint64_t operation_bytes_max, std::uint64_t frame_bytes_max);
  void append_frame();
  void end_frame();
  void wait_for_adds() const;

  JournalCore& core_;
  std::span<AddCount> add_counts_;
  std::size_t own_;
  std::function<std::uint64_t()> room_max_;
  std::uint64_t reserve_ = 0;  // room of the journal that this worker has reserved
  OperationEncoder pending_;   // empty while the gate is shared
  bool in_group_ = false;
  std::vector<std::vector<std::byte>> group_;  // the full frames of the group, without the pending one
  std::uint64_t group_bytes_ = 0;              // the room that these frames take
};

}  // namespace sepal::storage
