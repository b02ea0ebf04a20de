// The journal as commands and sessions see it, from the start of the server on.
#pragma once

#include <sepal/command/run/services.hpp>
#include <sepal/storage/journal/journal.hpp>

#include <atomic>
#include <cstdint>
#include <string>

namespace sepal::app {

// Synchronised. Until show(), there is no journal: nothing is recorded, and nothing waits for it.
class JournalView final : public command::Journal {
 public:
  // Called once. `journal` outlives all use of this object.
  void show(storage::Journal& journal);
  // The position at which the journal is going to begin.
  void begins_at(std::uint64_t position) { begin_ = position; }

  [[nodiscard]] std::uint64_t position() const;
  [[nodiscard]] std::uint64_t gap() const;
  void generation_saved(std::uint64_t position);
  void directory_replaced();
  void save_failed(const std::string& reason, std::uint64_t lacking_bytes);
  Result<void> sync_until(std::uint64_t position);

  [[nodiscard]] std::uint64_t durable_position() const override;
  [[nodiscard]] command::JournalStatus status() const override;

 private:
  std::atomic<storage::Journal*> journal_{nullptr};
  std::atomic<std::uint64_t> begin_{0};
};

}  // namespace sepal::app
