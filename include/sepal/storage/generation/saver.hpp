// The thread that saves, so that no other thread waits for the disk.
//
// It begins a save when a client or the daemon asks for one, when the interval is over and something changed,
// or when the journal has become too long for the data. The journal can also demand a save, or ask for one
// because it may not grow any more. The saver then tries again, with longer and longer pauses, until a save
// succeeds.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/gate.hpp>
#include <sepal/base/result.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace sepal::storage {

struct SaverStatus {
  bool running = false;
  Progress progress;
  SteadyTime started_at{};  // the running save, or the last one
  WallTime last_success{};
  std::optional<SteadyTime> last_success_steady;  // the same moment; nothing before the first save
  bool last_ok = true;
  std::string last_error;
  std::chrono::milliseconds last_duration{0};
  std::uint64_t last_bytes = 0;
  std::uint64_t saves_done = 0;
  std::uint64_t saves_failed = 0;
  std::uint64_t changes_saved = 0;     // the value of `changes` at the cut of the last successful save
  std::uint64_t journal_position = 0;  // at that cut
};

// When the saver saves unasked, and how fast.
struct SaverOptions {
  std::chrono::milliseconds interval{0};  // since the last save, when something changed; 0: never
  // Not for the save at stop, nor while a save is demanded; 0: as fast as the disk.
  std::uint64_t bytes_per_second_max = 0;
  // The saver saves when the journal since the last cut, with the files that it names, is longer than
  // `journal_bytes_min` and than this share of the memory that keys and filters take. A share of 0: never.
  std::uint64_t journal_bytes_min = 0;
  double journal_share = 0;
};

// What a saver asks of other parts and tells them. Called without a lock.
struct SaverCallbacks {
  // A count that grows with every change. Any thread.
  std::function<std::uint64_t()> changes;
  // Where the journal ends; exact with the gate closed, about right otherwise. Any thread. May be empty.
  std::function<std::uint64_t()> journal_position;
  // Bytes of the files that the journal names. A file goes when a generation has what is in it. Any thread.
  // May be empty.
  std::function<std::uint64_t()> adopted_bytes{};
  // The journal lacks changes before this position. Each new loss moves the position forward. Any thread. May
  // be empty.
  std::function<std::uint64_t()> journal_gap;
  // Returns when the journal is on disk up to this position. Blocks. May be empty.
  std::function<Result<void>(std::uint64_t journal_position)> sync_journal;
  // A generation cut at this position is current and durable. On the thread that saved. May be empty.
  std::function<void(std::uint64_t journal_position)> saved;
  // An empty directory has taken the place of the locked one, and the next save writes into that. Before the
  // cut of that save, on its thread. May be empty.
  std::function<void()> directory_replaced{};
  // A save failed. `lacking_bytes` is the room that it lacked; 0: room was not the reason. On the thread that
  // saved. May be empty.
  std::function<void(const Error& error, std::uint64_t lacking_bytes)> failed{};
  // A save found the disk full with so many bytes left to write. True when the reserve is given up for it,
  // until reserve_returned. Both may be empty, or neither. `data_grows`: the generation takes more room than
  // the one before it, so the room will not come back with the end of that one.
  std::function<bool(std::uint64_t bytes_left, bool data_grows)> lend_reserve{};
  std::function<void()> reserve_returned{};
};

// Synchronised. Owns one thread from start to stop. Takes the snapshot of the keyspace in short closings of
// the gate (snapshot.hpp), then writes it outside the gate. Logs the start and the end of a save, the
// progress of a long one, and failures: the first of a row, not each repetition.
class Saver {
 public:
  using Done = std::function<void(const Result<GenerationReport>&)>;  // called on the saver's thread

  // What the keyspace holds already.
  struct Loaded {
    WallTime at{};
    std::uint64_t journal_position = 0;  // at the generation's cut
    std::uint64_t changes = 0;           // the value of `changes` then; replayed changes came after
  };
  Saver(DataDirectory& directory, keyspace::Keyspace& keyspace, Gate& gate, SaverCallbacks callbacks,
        const Loaded& loaded);
  ~Saver();  // stops

  // May be called again.
  void set_options(const SaverOptions& options);
  // Errors: in_use when a save runs or is asked for already, or after save_at_stop() or stop(). `done` may be
  // empty. Otherwise it is called exactly once, while no save runs, so it may call start() again.
  Result<void> start(Done done);
  // Asks for a save whose cut comes after this call, with all files written anew (no file linked). The saver
  // tries until it succeeds or the saver ends.
  void demand();
  // Asks for a save that ends after this call, as fast as the disk allows, so that the journal and the files
  // it names can be removed. The saver tries until a save succeeds or the saver ends. May be called again
  // before that.
  void make_room();
  // Waits for a running save, then saves once more on the caller's thread if something changed since. Called
  // outside the gate. From now on no save begins by itself or by start(). `give_up` is asked now and then, on
  // the caller's thread; once it answers true, the running save ends with an error of code io. When nothing
  // changed, the report is that of the last save, or empty if there was none.
  Result<GenerationReport> save_at_stop(const std::function<bool()>& give_up);
  void stop();  // ends the thread after the save that runs or is asked for; may be called again

  [[nodiscard]] SaverStatus status() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace sepal::storage
