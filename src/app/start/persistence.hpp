// Saves and the journal: from the replay to the last save.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/settings/settings.hpp>
#include <sepal/storage/generation/adopted_files.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/generation/saver.hpp>
#include <sepal/storage/journal/journal.hpp>
#include <sepal/storage/journal/journal_bound.hpp>
#include <sepal/storage/journal/reserve.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "app/start/loader.hpp"
#include "app/system/service_manager.hpp"
#include "app/threads/journal_view.hpp"
#include "app/threads/stop_signal.hpp"

namespace sepal::app {

// Confined to the main thread, but for members that say otherwise and the interface of `command`.
class Persistence final : public command::Persistence {
 public:
  struct Callbacks {
    // On the journal's thread: it has made progress.
    std::function<void()> journal_progressed;
    // On the saver's thread: the adopter may find room, or never will.
    std::function<void()> save_ended;
    // Answers a client that waits for a save. On the saver's thread.
    std::function<void(std::uint64_t id, const Result<void>& outcome)> answer;
  };
  // `settings` are guarded by the gate once clients are served.
  Persistence(storage::Disk& disk, Gate& gate, const settings::Settings& settings,
              const command::ServerFacts& facts, const std::vector<command::WorkerStats>& workers,
              StopSignal& stop_signal, Callbacks callbacks);

  // The data directory is open. Both outlive this.
  void uses(storage::DataDirectory& data, keyspace::Keyspace& keyspace) {
    data_ = &data;
    keyspace_ = &keyspace;
  }
  // Returns the position at which the journal goes on.
  Result<std::uint64_t> replay(Loader& loader, const storage::GenerationReport& loaded);
  // Opens the journal at `position`, with so many bytes of reserve, and the saver. An error leaves neither.
  Result<void> open(const storage::Saver::Loaded& loaded, std::uint64_t position,
                    std::uint64_t reserve_bytes);
  // Called with the gate closed, after open(): from here on saves run and the journal records.
  void begin();
  // Whether begin() was called.
  [[nodiscard]] bool runs() const { return saver_ != nullptr; }
  // The journal's log of a worker, or of another thread, whose numbers follow the workers'.
  static constexpr std::size_t logs_beside_workers = 2;
  [[nodiscard]] keyspace::WorkerLog& log(std::size_t index) { return journal_->log(index); }
  [[nodiscard]] storage::AdoptedFiles& adopted_files() { return *adopted_files_; }
  [[nodiscard]] JournalView& journal_view() { return journal_view_; }

  // Called with the gate closed, when it runs and the settings have changed. `logs`: those of the workers.
  void settings_changed(const std::vector<keyspace::WorkerLog*>& logs);
  // The last save, if `mode` asks for it, and the end of the journal. Nothing changes the keyspace any more.
  Result<void> stop(command::StopMode mode, ServiceManager& manager);

  // Whether the disk has room for a file that the journal will name, as Adopter::Parts::room. Any thread.
  std::optional<Result<void>> room_for_adopted(std::uint64_t byte_count);
  // Grows with every change and never shrinks.
  [[nodiscard]] std::uint64_t changes() const;

  // command::Persistence
  Result<void> start_save() override;
  Result<void> start_save_for(std::uint64_t id) override;
  [[nodiscard]] command::SaveStatus status() const override;
  [[nodiscard]] command::DiskStatus disk_status() const override;

 private:
  [[nodiscard]] storage::SaverCallbacks saver_callbacks();
  [[nodiscard]] storage::SaverStatus saver_status() const;
  // They tell the stop signal whether the journal has everything that the last save lacks.
  void note_policy(storage::JournalPolicy policy);
  void note_saved(std::uint64_t position);
  // The journal's bound as the settings have it now. Any thread.
  [[nodiscard]] storage::JournalBound bound_now() const;
  // How many bytes the journal and the files that it names may take now; 0: no bound. Any thread.
  [[nodiscard]] std::uint64_t journal_bytes_max() const;

  storage::Disk& disk_;
  Gate& gate_;
  const settings::Settings& settings_;
  const command::ServerFacts& facts_;
  const std::vector<command::WorkerStats>& workers_;
  StopSignal& stop_signal_;
  const Callbacks callbacks_;
  storage::DataDirectory* data_ = nullptr;  // null until uses(), as the next
  keyspace::Keyspace* keyspace_ = nullptr;
  storage::Lineage lineage_;  // of the journal's new segments; from the replay
  JournalView journal_view_;
  std::atomic<bool> journal_on_{false};
  std::unique_ptr<storage::AdoptedFiles> adopted_files_;
  std::unique_ptr<storage::Reserve> reserve_;
  mutable Mutex bound_mutex_;  // Lock order: the innermost.
  storage::JournalBound bound_ SEPAL_GUARDED_BY(bound_mutex_);
  // From open() to begin().
  std::unique_ptr<storage::Saver> opened_saver_;
  std::unique_ptr<storage::Journal> opened_journal_;
  // Null until the load ends; guarded by the gate.
  std::unique_ptr<storage::Saver> saver_;
  std::unique_ptr<storage::Journal> journal_;
};

}  // namespace sepal::app
