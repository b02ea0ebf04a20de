// The journal: what changed since the last generation, so that nothing answered is lost.
//
//     worker 0: WorkerLog --frames--> \                          /--> sync, by the journal's thread
//     worker 1: WorkerLog --frames-->  [ active segment, mapped ]---> next segments, prepared ahead by it
//
// A frame is copied into the mapped segment under a short lock: no system call, and from then on the death of
// the process loses nothing. Syncs, new segments and the removal of old ones are the thread's. A worker never
// waits for it: when there is no room, it admits no change.
//
// Policies: `everysec` syncs once a second; `always` syncs as soon as something is there, and replies wait
// for it (see durable_position); `off` records nothing.
//
// When the disk fails. No room for the next segment: changes are refused when what is prepared is used up,
// until there is room. A sync that failed: the kernel may have dropped the pages, so nothing that was not
// synced before is trusted again; changes are refused, a save is asked for, whose generation holds it all,
// and once it is there a new segment begins. A file that somebody removed is a failed sync, too.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/disk.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sepal::storage {

enum class JournalPolicy : std::uint8_t { off, everysec, always };

// Smaller segments are for tests: they have room for no operation of more than an eighth of them.
inline constexpr std::uint64_t journal_segment_bytes_min = std::uint64_t{2} << 20;

struct JournalOptions {
  JournalPolicy policy = JournalPolicy::everysec;
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;  // rounded up to 4096
  std::uint32_t segments_ahead = 2;                       // prepared beside the active one, at least 1
  std::chrono::milliseconds sync_interval{1000};          // under `everysec`
  bool threaded = true;                                   // false: work() is called instead; for tests
};

struct JournalStatus {
  JournalPolicy policy = JournalPolicy::off;
  bool accepting = true;  // false: changes are refused, and `refusal` says why
  std::string refusal;    // a sentence of one line
  std::uint64_t position = 0;
  std::uint64_t synced_position = 0;
  std::uint64_t segment_count = 0;  // on disk, those ahead included
  std::uint64_t syncs = 0;
  std::uint64_t failed_syncs = 0;
  std::uint64_t frames = 0;
};

// Synchronised. Owns one thread.
class Journal {
 public:
  struct Callbacks {
    // On the journal's thread, without a lock: durable_position() or the room has grown, or changes are
    // accepted or refused from now on.
    std::function<void()> on_progress;
    // On the journal's thread, without a lock: nothing is promised until a generation is cut from now on.
    // Once for each time that something went missing; a save that runs already is not enough.
    std::function<void()> on_save_needed;
  };

  // Begins a new segment at `position`, where replay ended. Segments that are there are left alone.
  // Errors: disk_full, read_only, io, not_found.
  static Result<std::unique_ptr<Journal>> open(Disk& disk, Path directory, std::uint64_t position,
                                               std::size_t worker_count, const JournalOptions& options,
                                               Callbacks callbacks);
  virtual ~Journal() = default;  // after stop()

  // A worker's. A request that asks for more room than there is gets `later`, until the thread has prepared
  // as many segments as it takes, and called on_progress.
  [[nodiscard]] virtual keyspace::WorkerLog& log(std::size_t worker) = 0;

  // With the gate closed: where a cut of this instant stands.
  [[nodiscard]] virtual std::uint64_t position() const = 0;
  // Something is missing before it: the journal was off, or a sync failed. No generation may be of before and
  // after, for nothing leads from the one to the other. 0: nothing is.
  [[nodiscard]] virtual std::uint64_t gap() const = 0;
  // Everything below it survives a power cut, by syncs or by a generation.
  [[nodiscard]] virtual std::uint64_t durable_position() const = 0;
  [[nodiscard]] virtual JournalStatus status() const = 0;

  // With the gate closed. From off to another, the first frame is a `resumed`, and a save is needed before
  // anything is durable.
  virtual void set_policy(JournalPolicy policy) = 0;

  // Returns when everything below `position`, which was recorded, survives a power cut by a sync. Not on the
  // journal's thread. Blocks. Errors: those of the sync that failed, io at the end of the thread.
  virtual Result<void> sync_until(std::uint64_t position) = 0;

  // A generation cut at `position` is current and durable: segments that end at or below it are removed (by
  // the thread), and after a failed sync changes are accepted again, in a new segment, if nothing was
  // recorded after the cut.
  virtual void generation_saved(std::uint64_t position) = 0;

  // One round of what the thread does, for a journal without one: everything is synced, prepared, removed and
  // called back that is due, whatever time it is. Blocks.
  virtual void work() = 0;

  // Syncs everything, removes what was prepared ahead, ends the thread. Nobody records any more. May be
  // called again. Errors: those of the last sync.
  virtual Result<void> stop() = 0;
};

}  // namespace sepal::storage
