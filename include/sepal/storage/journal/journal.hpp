// The journal: the changes since the last generation, so that nothing that was answered is lost.
//
//     worker 0: WorkerLog --frames--> \                          /--> sync, by the journal's thread
//     worker 1: WorkerLog --frames-->  [ active segment, mapped ]---> next segments, prepared ahead by it
//
// The first segments and the reserve are small, and grow with what is recorded, so an unused server takes
// little of the disk.
//
// A worker copies a frame into the mapped segment under a short lock, without a system call. From then on the
// death of the process loses nothing. The journal's thread syncs, makes new segments and removes old ones. A
// worker never waits for it: when there is no room, the worker admits no change.
//
// Policies: `everysec` syncs once a second; `always` syncs as soon as something is there, and replies wait
// for it (see durable_position); `off` records nothing.
//
// When the disk has no room for the next segment: the journal takes changes until the prepared segments are
// used up, and then refuses them until there is room. It still takes changes that give room back
// (keyspace::Change::frees): the thread makes small segments for them, from the reserve (reserve.hpp) if need
// be. New room goes to the reserve first, then, if the last save did not fit, to the next save, and only then
// to the journal. The journal also stops growing at a bound, `bytes_max`, until a save lets it remove
// segments.
//
// When a sync fails: the kernel may have dropped the pages, so nothing that was not synced before is trusted
// again. The journal refuses changes and asks for a save, whose generation holds it all; once that is there,
// a new segment begins. On a full disk the old segments make room for it, and then the reserve. A segment
// file that was removed counts as a failed sync, too.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/lineage.hpp>
#include <sepal/storage/journal/reserve.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sepal::storage {

using keyspace::JournalPolicy;

// Smaller segments are for tests. Such a segment has no room for an operation of more than an eighth of it.
inline constexpr std::uint64_t journal_segment_bytes_min = std::uint64_t{2} << 20;

struct JournalOptions {
  JournalPolicy policy = JournalPolicy::everysec;
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;  // the most; rounded up to 4096
  // The first segments have so many, and at least four of the longest frames. The others grow with what is
  // recorded.
  std::uint64_t first_segment_bytes = 0;
  std::uint32_t segments_ahead = 2;               // prepared beside the active one, at least 1
  std::chrono::milliseconds sync_interval{1000};  // under `everysec`
  bool threaded = true;                           // false: work() is called instead; for tests
  Lineage lineage{};                              // of new segments, and of SYNCED
};

struct JournalStatus {
  JournalPolicy policy = JournalPolicy::off;
  bool accepting = true;  // false: changes are refused, and `refusal` says why
  std::string refusal;    // a sentence of one line
  std::uint64_t position = 0;
  std::uint64_t synced_position = 0;
  std::uint64_t segment_count = 0;  // on disk, with the ones prepared ahead
  std::uint64_t byte_count = 0;     // the bytes of their files
  std::uint64_t syncs = 0;
  std::uint64_t failed_syncs = 0;
  std::uint64_t frames = 0;
  // The journal may not grow until a save has ended, and changes may have to wait for that.
  bool waits_for_save = false;
  // It was off, and its position does not tell yet that changes are missing: no frame says so.
  bool resumes = false;
};

// Synchronised. Owns one thread.
class Journal {
 public:
  struct Callbacks {
    // On the journal's thread, without a lock: durable_position() or the room has grown, or the journal
    // accepts or refuses changes from now on.
    std::function<void()> on_progress;
    // On the journal's thread, without a lock: from now on nothing is promised until a
    // generation is finished that is cut after this. Called once each time that something went missing; a
    // save that runs already is not enough.
    std::function<void()> on_save_needed;
    // On the journal's thread, without a lock: the journal cannot grow, and a save would give it room. It may
    // be called again before a save has succeeded.
    std::function<void()> on_room_needed{};
    // On any thread, without a lock of the journal: how many bytes the segments may take, together with the
    // files that bytes_beside counts. 0: as many as the disk has.
    std::function<std::uint64_t()> bytes_max{};
    // On the journal's thread, without a lock: the bytes of files that the next save removes.
    std::function<std::uint64_t()> bytes_beside{};
  };

  // Begins a new segment at `position`, where replay ended. Older segments are left alone. Only on a full
  // disk the room behind `position` is taken from the last of them, and then from the reserve. Where even
  // that is not enough, the journal refuses changes until there is room. The reserve outlives the journal;
  // null: there is none. Errors: read_only, io, not_found.
  static Result<std::unique_ptr<Journal>> open(Disk& disk, Path directory, std::uint64_t position,
                                               std::size_t worker_count, const JournalOptions& options,
                                               Callbacks callbacks, Reserve* reserve = nullptr);
  virtual ~Journal() = default;  // after stop()

  // The log of a worker. A request that asks for more room than there is gets `later`, until the thread has
  // prepared enough segments and called on_progress. It gets `never` if it asks for more than `bytes_max`
  // leaves: one segment is always in use, and other workers may keep the room of another.
  [[nodiscard]] virtual keyspace::WorkerLog& log(std::size_t worker) = 0;

  // Called with the gate closed: the position of a cut at this instant.
  [[nodiscard]] virtual std::uint64_t position() const = 0;
  // Something is missing before this position: the journal was off, or a sync failed. Compare a state from
  // before the position with one from after it. The journal lacks the changes between the two states. So a
  // generation must not mix them. 0: nothing is missing.
  [[nodiscard]] virtual std::uint64_t gap() const = 0;
  // Everything before it survives a power cut, by syncs or by a generation.
  [[nodiscard]] virtual std::uint64_t durable_position() const = 0;
  [[nodiscard]] virtual JournalStatus status() const = 0;

  // Called with the gate closed. When the journal was off and is switched on, the first frame is a `resumed`,
  // and nothing is durable before a save.
  virtual void set_policy(JournalPolicy policy) = 0;

  // Returns when everything below `position`, which was recorded, survives a power cut by a sync. Not on the
  // journal's thread. Blocks. Errors: those of the sync that failed; io when the thread ends.
  virtual Result<void> sync_until(std::uint64_t position) = 0;

  // A generation cut at `position` is current and durable. The thread removes segments that end at or below
  // it. After a failed sync the journal accepts changes again, in a new segment, if nothing was recorded
  // after the cut.
  virtual void generation_saved(std::uint64_t position) = 0;
  // The directory of the segments is not found by its path any more, and another one is used from now on. As
  // after a failed sync, the journal refuses changes until a generation has all that was recorded. Any
  // thread.
  virtual void directory_replaced() = 0;
  // A save failed. Any thread. `lacking_bytes` is the room that it lacked; 0: room was not the reason.
  virtual void save_failed(const std::string& reason, std::uint64_t lacking_bytes) = 0;

  // Does one round of the thread's work, for a journal without a thread: syncs, prepares, removes and calls
  // back all that is due, whatever time it is. Blocks.
  virtual void work() = 0;

  // Syncs everything, removes the segments that were prepared ahead, ends the thread. No worker records any
  // more. May be called again. Errors: those of the last sync.
  virtual Result<void> stop() = 0;
};

}  // namespace sepal::storage
