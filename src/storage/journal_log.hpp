// A worker's log in the journal.
//
// An add in the shared gate is a frame at once. With the gate closed, operations gather until commit(), or
// until they are many.
#pragma once

#include <sepal/keyspace/mutation_log.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "journal_core.hpp"
#include "operation_encoder.hpp"

namespace sepal::storage {

// Counts the ends of a worker's adds: odd between begin_add() and added(). Others wait for it (settle), so it
// has a cache line of its own.
struct alignas(64) AddCount {
  std::atomic<std::uint64_t> value{0};
};

class JournalLog final : public keyspace::WorkerLog {
 public:
  // `add_counts` are those of all logs, this one's at `own`.
  JournalLog(JournalCore& core, std::span<AddCount> add_counts, std::size_t own)
      : core_(core), add_counts_(add_counts), own_(own) {}

  [[nodiscard]] bool recording() const override { return core_.policy() != JournalPolicy::off; }
  void begin_add() override;
  void added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override;
  void created(keyspace::DatabaseKey key, const filter::FilterOptions& options,
               const filter::LayerPlan& first_layer) override;
  void grown(keyspace::DatabaseKey key, const filter::LayerPlan& layer) override;
  void removed(keyspace::DatabaseKey key) override;
  void expires(keyspace::DatabaseKey key, keyspace::Deadline deadline) override;
  void renamed(std::uint32_t database, std::string_view from, std::string_view to) override;
  void adopted(keyspace::DatabaseKey key, const keyspace::AdoptedFilter& filter) override;
  void moved(keyspace::DatabaseKey from, std::uint32_t to_database) override;
  void swapped(std::uint32_t database, std::uint32_t other) override;
  void mirrored(const keyspace::Mirror& mirror) override;
  void flushed(std::uint32_t database) override;
  void flushed_all() override;

  [[nodiscard]] keyspace::Admission admit(std::uint64_t bytes_max) override;
  void commit() override;
  [[nodiscard]] std::uint64_t settle(bool answered_known) override;

  // With the gate closed.
  void release_reserve() { core_.release(reserve_); }

 private:
  void make_room_in_frame(std::uint64_t operation_bytes_max);
  void append_frame();
  void wait_for_adds() const;

  JournalCore& core_;
  std::span<AddCount> add_counts_;
  std::size_t own_;
  std::uint64_t reserve_ = 0;  // of the journal's room
  OperationEncoder pending_;   // empty while the gate is shared
};

}  // namespace sepal::storage
