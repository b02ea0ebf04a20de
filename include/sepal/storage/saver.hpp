// The thread that saves, so that no other ever waits for the disk.
//
// A save begins because somebody asks, because the interval is over and something changed, because the
// journal has grown out of proportion to the data, or because the journal demands it: then it is tried again,
// in longer and longer pauses, until it succeeds.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/gate.hpp>
#include <sepal/base/result.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/data_directory.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sepal::storage {

struct SaverStatus {
  bool running = false;
  Progress progress;
  SteadyTime started_at{};  // of the running save, or of the last
  WallTime last_success{};
  bool last_ok = true;
  std::string last_error;
  std::chrono::milliseconds last_duration{0};
  std::uint64_t last_bytes = 0;
  std::uint64_t saves_done = 0;
  std::uint64_t changes_saved = 0;     // the value of `changes` at the cut of the last successful save
  std::uint64_t journal_position = 0;  // of that cut
};

// When to save unasked, and how fast.
struct SaverOptions {
  std::chrono::milliseconds interval{0};  // counted from the last time, when something changed; 0: never
  // But for the save at stop, and while one is demanded; 0: as fast as the disk.
  std::uint64_t bytes_per_second_max = 0;
  // When the journal since the last cut, with the files that it names, is longer than this and than this
  // share of the data. 0: never.
  std::uint64_t journal_bytes_min = 0;
  double journal_share = 0;
};

// What a saver asks of others and tells them. Called without a lock.
struct SaverCallbacks {
  // A count that grows with every change. Any thread.
  std::function<std::uint64_t()> changes;
  // Where the journal ends; exact with the gate closed, about right otherwise. Any thread. May be empty.
  std::function<std::uint64_t()> journal_position;
  // Bytes of the files that the journal names: each goes when a generation has what is in it. Any thread. May
  // be empty.
  std::function<std::uint64_t()> adopted_bytes{};
  // Before this position something is missing from the journal: it grows whenever that happens. Any thread.
  // May be empty.
  std::function<std::uint64_t()> journal_gap;
  // Returns when the journal is on disk up to this position. Blocks. May be empty.
  std::function<Result<void>(std::uint64_t journal_position)> sync_journal;
  // A generation cut at this position is current and durable. On the thread that saved. May be empty.
  std::function<void(std::uint64_t journal_position)> saved;
};

// Synchronised. Owns one thread from start to stop. Takes the snapshot of the keyspace in short closings of
// the gate (snapshot.hpp), then writes it outside. Logs the start and the end of a save, where it is in a
// long one, and failures: when it begins to fail, not each time that it fails again.
class Saver {
 public:
  using Done = std::function<void(const Result<GenerationReport>&)>;  // called on the saver's thread

  // `loaded` is what the keyspace holds already.
  struct Loaded {
    WallTime at{};
    std::uint64_t journal_position = 0;  // of the generation's cut
    std::uint64_t changes = 0;           // the value of `changes` then: what was replayed came after
  };
  Saver(DataDirectory& directory, keyspace::Keyspace& keyspace, Gate& gate, SaverCallbacks callbacks,
        const Loaded& loaded);
  ~Saver();  // stops

  // May be called again.
  void set_options(const SaverOptions& options);
  // Errors: in_use when a save runs or is asked for already, or after save_at_stop() or stop(). `done` may be
  // empty; it is called exactly once otherwise, with no save running, so that it may lead to the next
  // start().
  Result<void> start(Done done);
  // A save whose cut comes after this call, all of it written anew (no file linked), tried until it succeeds
  // or the saver ends.
  void demand();
  // Waits for a running save, then saves once more on the caller's thread if something changed since. Outside
  // the gate. No save begins by itself or by start() from now on. `give_up` is asked now and then, on the
  // caller's thread; once it answers true the running save ends with an error of code io. When nothing
  // changed, the report is that of the last save, and empty if there was none.
  Result<GenerationReport> save_at_stop(const std::function<bool()>& give_up);
  void stop();  // ends the thread after the save that runs or is asked for; may be called again

  [[nodiscard]] SaverStatus status() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace sepal::storage
