// The journal as commands and sessions see it.
#pragma once

#include <sepal/command/services.hpp>
#include <sepal/storage/journal.hpp>

#include <atomic>
#include <cstdint>

namespace sepal::app {

// Synchronised. Before there is a journal nothing is recorded, and nothing waits for it.
class JournalView final : public command::Journal {
 public:
  // `journal` outlives all use of this. Once.
  void show(storage::Journal& journal, std::uint64_t segment_bytes);
  // Where the journal is going to begin.
  void begins_at(std::uint64_t position) { begin_ = position; }

  [[nodiscard]] std::uint64_t position() const;
  [[nodiscard]] std::uint64_t gap() const;
  void generation_saved(std::uint64_t position);
  Result<void> sync_until(std::uint64_t position);

  [[nodiscard]] std::uint64_t durable_position() const override;
  [[nodiscard]] command::JournalStatus status() const override;

 private:
  std::atomic<storage::Journal*> journal_{nullptr};
  std::atomic<std::uint64_t> begin_{0};
  std::uint64_t segment_bytes_ = 0;  // Written before journal_ is.
};

}  // namespace sepal::app
