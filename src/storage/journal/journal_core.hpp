// What the workers and the journal's thread share: the segments, the room in them, and the journal's state.
//
// Room. The room is the rest of the active segment, and the size of each segment ahead, less the bytes that
// may stay unused at the end of the segment before it. A worker reserves some room at a time, so an admitted
// request finds its room whatever the other workers do. Each append takes its bytes from the worker's
// reserve.
//
// Trust. Positions below `synced` were synced. After a failed sync, or a time in which the journal was off,
// something is missing below the `gap`. A sync makes nothing durable then, until a generation has been cut at
// or after the gap. A failed sync also closes the journal, until restart().
//
// Freeing. If no segment can be made for ordinary changes, the thread makes small ones for changes that give
// room back (Change::frees), some of them from the reserve. While `freeing_only` lasts, other changes find no
// room.
//
// Nothing in here waits for a disk. The thread asks what there is to do (Chores), does it without the lock,
// and reports the outcome.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/journal/journal.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/format/synced_file.hpp"
#include "storage/journal/journal_segment.hpp"

namespace sepal::storage {

using JournalSegments = std::vector<std::unique_ptr<JournalSegment>>;

// Synchronised.
class JournalCore {
 public:
  // What the thread is to do.
  struct Chores {
    bool end = false;
    bool sync = false;
    bool prepare = false;   // segments, while wants_segment()
    bool restart = false;   // with so many segments as segments_to_restart()
    bool ask_save = false;  // with on_save_needed
    bool tell = false;      // with on_progress: clients need not wait for room any more
  };
  // A sync that is under way.
  struct Sync {
    struct Part {
      JournalSegment* segment = nullptr;
      SegmentRange range;
    };
    std::vector<Part> parts;  // oldest first
    std::uint64_t position = 0;
    std::uint64_t frames = 0;  // recorded up to `position`
  };

  JournalCore(const JournalOptions& options, std::uint64_t position);

  // --- a worker -------------------------------------------------------------------------------------------

  [[nodiscard]] JournalPolicy policy() const { return policy_.load(std::memory_order_relaxed); }
  // A hint: only refill() decides.
  [[nodiscard]] bool accepting(keyspace::Change change = keyspace::Change::any) const {
    const std::atomic<bool>& flag = change == keyspace::Change::frees ? accepting_freeing_ : accepting_;
    return flag.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t frame_bytes_max() const { return frame_bytes_max_; }
  // Includes every frame whose append happened before this call, on whichever thread.
  [[nodiscard]] std::uint64_t position() const { return position_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t durable_position() const { return durable_.load(std::memory_order_acquire); }

  // Raises `reserve`, that of one worker, to at least `needed_bytes`, and to more if there is plenty of room.
  keyspace::Admission refill(std::uint64_t& reserve, std::uint64_t needed_bytes, keyspace::Change change);
  // The caller has reserved the room.
  void append(std::span<const std::byte> body, std::uint64_t& reserve);
  // Appends a group of frames, which may be empty: after a crash it is there whole or not at all. The caller
  // has reserved room for the longest group that there could be. What is left of it goes back, down to what a
  // worker usually reserves.
  void append_group(std::span<const std::vector<std::byte>> bodies, std::uint64_t& reserve);
  // The reserve is more than a worker usually has.
  [[nodiscard]] bool is_large(std::uint64_t reserve) const { return reserve > reserve_bytes_; }
  // Gives back what is more than that.
  void trim(std::uint64_t& reserve);
  void request_sync();

  // --- any thread -----------------------------------------------------------------------------------------

  void release(std::uint64_t& reserve);
  void set_policy(JournalPolicy policy);  // the gate is closed
  [[nodiscard]] std::uint64_t gap() const;
  void generation_saved(std::uint64_t position);
  // Keeps, until a generation is saved, why the save failed and how much room it lacked (0: lack of room was
  // not the reason).
  void save_failed(const std::string& reason, std::uint64_t lacking_bytes);
  // Makes the thread sync up to `position` at once.
  void ask_sync(std::uint64_t position);
  // Waits for that sync.
  [[nodiscard]] Result<void> await_sync(std::uint64_t position);
  [[nodiscard]] JournalStatus status() const;  // without segment_count
  void end();

  // --- the thread -----------------------------------------------------------------------------------------

  [[nodiscard]] Chores wait_for_chores();
  [[nodiscard]] Chores chores();  // whatever time it is

  // Ends the page that is being stored into, so that no worker stores into a page that is being synced.
  [[nodiscard]] Sync begin_sync();
  void end_sync(const Sync& sync);
  void sync_failed(const std::string& reason);
  // Takes the segments that are fully synced.
  [[nodiscard]] JournalSegments take_synced();

  // Everything before the journal's beginning was synced. `mark` names the newest segment with something in
  // it.
  void took_over(const SyncedMark& mark);
  // The next contents of SYNCED, if it is time to write it. Called once for each try.
  [[nodiscard]] std::optional<SyncedMark> take_mark(SteadyTime now);
  void mark_written(const SyncedMark& mark);

  [[nodiscard]] bool wants_segment() const;
  void add_segment(std::unique_ptr<JournalSegment> segment);
  void preparing_failed(const std::string& reason);
  // No segment may be made until a save has ended, and that save has been asked for. Meanwhile requests wait
  // for room.
  void preparing_waits();
  // While the reserve is not whole, the thread tries again and again to make it.
  void reserve_is_whole(bool whole);
  [[nodiscard]] bool wants_freeing_segment() const;
  void add_freeing_segment(std::unique_ptr<JournalSegment> segment);
  void freeing_failed(const std::string& reason);
  struct FailedSave {
    std::string reason;  // empty: the last save succeeded
    std::uint64_t lacking_bytes = 0;
  };
  [[nodiscard]] FailedSave failed_save() const;

  [[nodiscard]] std::size_t segments_to_restart() const;
  // Begins anew in `fresh`. Returns the old segments, or `fresh` if the restart has to wait after all.
  [[nodiscard]] JournalSegments restart(JournalSegments fresh);

  // Takes the segments ahead, which are not needed any more.
  [[nodiscard]] JournalSegments take_ahead();
  // Once after each generation: takes the segments ahead that no worker needs, beyond those that are always
  // kept. A large request had them made.
  [[nodiscard]] JournalSegments take_surplus();
  // The ranges that are stored into next, for the thread to prepare.
  [[nodiscard]] std::vector<SegmentRange> next_pages();
  [[nodiscard]] std::uint64_t saved_position() const;
  // Why changes are refused; empty if they are not.
  [[nodiscard]] std::optional<std::string> refusal() const;

 private:
  [[nodiscard]] std::uint64_t room() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t unreserved() const SEPAL_REQUIRES(mutex_);
  void append_frame(std::span<const std::byte> body, std::uint64_t body_checksum, std::uint32_t flags = 0)
      SEPAL_REQUIRES(mutex_);
  void use_reserve(std::uint64_t& reserve, std::uint64_t bytes) SEPAL_REQUIRES(mutex_);
  void give_back(std::uint64_t& reserve) SEPAL_REQUIRES(mutex_);
  void append_resumed() SEPAL_REQUIRES(mutex_);
  void rotate() SEPAL_REQUIRES(mutex_);
  void raise_durable(std::uint64_t position) SEPAL_REQUIRES(mutex_);
  void refuse(const std::string& reason) SEPAL_REQUIRES(mutex_);
  void accept() SEPAL_REQUIRES(mutex_);
  void note_due() SEPAL_REQUIRES(mutex_);
  void widen_window(std::uint64_t bytes) SEPAL_REQUIRES(mutex_);
  void note_newest_synced(const Sync& sync) SEPAL_REQUIRES(mutex_);
  [[nodiscard]] bool short_of_segments() const SEPAL_REQUIRES(mutex_);
  void retry_later() SEPAL_REQUIRES(mutex_);
  void accept_freeing() SEPAL_REQUIRES(mutex_);
  [[nodiscard]] bool unsynced() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] bool may_restart() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] bool needs_save() const SEPAL_REQUIRES(mutex_);
  void ask_save() SEPAL_REQUIRES(mutex_);
  [[nodiscard]] bool needs_mark() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] SteadyTime sync_time() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] SteadyTime next_time() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] Chores chores_at(SteadyTime now) SEPAL_REQUIRES(mutex_);

  const JournalOptions options_;
  const std::uint64_t frame_bytes_max_;
  const std::uint64_t reserve_bytes_;  // what a worker reserves at a time if there is plenty

  std::atomic<JournalPolicy> policy_;
  std::atomic<bool> accepting_{true};
  std::atomic<bool> accepting_freeing_{true};
  std::atomic<bool> sleeping_{false};  // the journal's thread sleeps
  alignas(64) std::atomic<std::uint64_t> position_;
  std::atomic<std::uint64_t> durable_;

  alignas(64) mutable Mutex mutex_;  // Lock order: inside the gate; the innermost.
  std::unique_ptr<JournalSegment> active_ SEPAL_GUARDED_BY(mutex_);  // null before the first segment
  // Only the journal's thread takes segments out, so it may use them without the lock.
  JournalSegments written_ SEPAL_GUARDED_BY(mutex_);  // before the active one, not all synced; oldest first
  std::deque<std::unique_ptr<JournalSegment>> ahead_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t reserved_ SEPAL_GUARDED_BY(mutex_) = 0;        // by all workers
  std::uint64_t wanted_ SEPAL_GUARDED_BY(mutex_) = 0;          // room that a worker waits for
  std::uint64_t wanted_freeing_ SEPAL_GUARDED_BY(mutex_) = 0;  // the same, for changes that free
  bool freeing_only_ SEPAL_GUARDED_BY(mutex_) = false;
  bool reserve_missing_ SEPAL_GUARDED_BY(mutex_) = false;
  bool waits_for_save_ SEPAL_GUARDED_BY(mutex_) = false;
  FailedSave failed_save_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t synced_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t sync_begun_ SEPAL_GUARDED_BY(mutex_);      // the last sync that began covers up to here
  std::uint64_t sync_asked_ SEPAL_GUARDED_BY(mutex_) = 0;  // a sync up to here is asked for
  std::uint64_t saved_ SEPAL_GUARDED_BY(mutex_) = 0;       // the cut of the newest durable generation
  std::uint64_t marked_ SEPAL_GUARDED_BY(mutex_);          // what SYNCED says, or needs not say
  SyncedMark newest_synced_ SEPAL_GUARDED_BY(mutex_);  // the segment; its position is not used, durable_ is
  SteadyTime mark_time_ SEPAL_GUARDED_BY(mutex_){SteadyTime::min()};  // the next mark is written no earlier
  std::uint64_t gap_ SEPAL_GUARDED_BY(mutex_) = 0;
  bool failed_ SEPAL_GUARDED_BY(mutex_) = false;       // a sync failed
  bool resumed_due_ SEPAL_GUARDED_BY(mutex_) = false;  // a `resumed` has to be recorded before anything else
  bool surplus_due_ SEPAL_GUARDED_BY(mutex_) = false;  // a generation has been saved since take_surplus()
  bool ask_due_ SEPAL_GUARDED_BY(mutex_) = false;      // a save has to be asked for
  bool tell_due_ SEPAL_GUARDED_BY(mutex_) = false;
  std::string refusal_ SEPAL_GUARDED_BY(mutex_);
  std::string preparing_error_ SEPAL_GUARDED_BY(mutex_);  // the last attempt's; empty: it succeeded
  std::uint64_t frames_ SEPAL_GUARDED_BY(mutex_) = 0;
  std::uint64_t syncs_ SEPAL_GUARDED_BY(mutex_) = 0;
  std::uint64_t failed_syncs_ SEPAL_GUARDED_BY(mutex_) = 0;

  Condition wake_;           // wakes the journal's thread
  Condition synced_or_not_;  // wakes the callers of await_sync()
  bool ending_ SEPAL_GUARDED_BY(mutex_) = false;
  bool due_ SEPAL_GUARDED_BY(mutex_) = false;      // a chore that is due now, without a time
  SteadyTime last_sync_ SEPAL_GUARDED_BY(mutex_);  // when the last sync began
  SteadyTime gathered_at_ SEPAL_GUARDED_BY(mutex_){SteadyTime::min()};
  std::uint64_t frames_synced_ SEPAL_GUARDED_BY(mutex_) = 0;
  SteadyTime retry_time_ SEPAL_GUARDED_BY(mutex_);
  std::chrono::milliseconds retry_delay_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t window_bytes_ SEPAL_GUARDED_BY(mutex_);  // how far ahead pages are prepared
  bool pages_due_ SEPAL_GUARDED_BY(mutex_) = false;
  SteadyTime pages_time_ SEPAL_GUARDED_BY(mutex_);
};

}  // namespace sepal::storage
