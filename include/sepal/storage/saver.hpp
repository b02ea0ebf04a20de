// The thread that saves, so that no other ever waits for the disk.
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
  WallTime last_success{};
  bool last_ok = true;
  std::string last_error;
  std::chrono::milliseconds last_duration{0};
  std::uint64_t last_bytes = 0;
  std::uint64_t saves_done = 0;
  std::uint64_t changes_saved = 0;  // the value of `changes` at the cut of the last successful save
};

// Synchronised. Owns one thread from start to stop. Takes the snapshot of the keyspace with the gate closed,
// in pieces (snapshot.hpp), then writes it outside. Logs the start, the end and each failure of a save.
class Saver {
 public:
  using Changes = std::function<std::uint64_t()>;                     // a count that grows with every change
  using Done = std::function<void(const Result<GenerationReport>&)>;  // called on the saver's thread

  Saver(DataDirectory& directory, keyspace::Keyspace& keyspace, Gate& gate, Changes changes,
        WallTime loaded_at);
  ~Saver();  // stops

  // Saves every `interval`, counted from the last time, when something changed; 0: never by itself. May be
  // called again.
  void set_interval(std::chrono::milliseconds interval);
  // Errors: in_use when a save runs or is asked for already, or after save_at_stop() or stop(). `done` may be
  // empty; it is called exactly once otherwise, with no save running, so that it may lead to the next
  // start().
  Result<void> start(Done done);
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
