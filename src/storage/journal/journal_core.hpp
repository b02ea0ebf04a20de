// What the workers and the journal's thread share: the segments, the room in them, and the journal's state.
//
// Three structs under one lock: the segments and their room (journal_room.hpp), how far the journal is to be
// trusted (journal_trust.hpp), and when the thread is to do what (journal_times.hpp).
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
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/format/synced_file.hpp"
#include "storage/journal/journal_room.hpp"
#include "storage/journal/journal_segment.hpp"
#include "storage/journal/journal_times.hpp"
#include "storage/journal/journal_trust.hpp"

namespace sepal::storage {

// Synchronised.
class JournalCore {
 public:
  // What the thread is to do.
  struct Chores {
    bool end = false;
    bool sync = false;
    bool prepare = false;   // segments, while wants_segment()
    bool restart = false;   // with new segments, until lacks_to_restart() is 0
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
  // has reserved room for the longest group that there could be. The unused part is returned, except for the
  // worker's usual reserve (`reserve_bytes_`).
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
  // The same, but no save is asked for: the caller saves until that succeeds.
  void directory_replaced(const std::string& reason);
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
  void prepare_later();
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

  // How many segments there are at least, but for those that are written.
  [[nodiscard]] std::size_t segments_kept() const;
  // How much more room new segments need to have; 0: `fresh` is enough.
  [[nodiscard]] std::uint64_t lacks_to_restart(const JournalSegments& fresh) const;
  // Takes the old segments that no worker needs, before the journal begins anew. None if the restart has to
  // wait after all.
  [[nodiscard]] JournalSegments take_spare();
  // Begins anew in `fresh`. Returns the old segments, or `fresh` if the restart has to wait after all.
  [[nodiscard]] JournalSegments restart(JournalSegments fresh, bool for_freeing);
  void restart_failed(const std::string& reason);

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
  void append_frame(std::span<const std::byte> body, std::uint64_t body_checksum, std::uint32_t flags = 0)
      SEPAL_REQUIRES(mutex_);
  void give_back(std::uint64_t& reserve) SEPAL_REQUIRES(mutex_);
  void append_resumed() SEPAL_REQUIRES(mutex_);
  void rotate() SEPAL_REQUIRES(mutex_);
  void publish_durable() SEPAL_REQUIRES(mutex_);
  void refuse(const std::string& reason) SEPAL_REQUIRES(mutex_);
  void accept() SEPAL_REQUIRES(mutex_);
  void note_due() SEPAL_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t end_position() const { return position_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool short_of_segments() const SEPAL_REQUIRES(mutex_);
  void accept_freeing() SEPAL_REQUIRES(mutex_);
  [[nodiscard]] bool unsynced() const SEPAL_REQUIRES(mutex_) { return trust_.unsynced(end_position()); }
  [[nodiscard]] bool may_restart() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] bool wants_preparing() const SEPAL_REQUIRES(mutex_);
  void ask_save() SEPAL_REQUIRES(mutex_);
  void lose(const std::string& reason) SEPAL_REQUIRES(mutex_);
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
  std::atomic<std::uint64_t> durable_;  // that of trust_, for any thread

  alignas(64) mutable Mutex mutex_;  // Lock order: inside the gate; the innermost.
  JournalRoom room_ SEPAL_GUARDED_BY(mutex_);
  JournalTrust trust_ SEPAL_GUARDED_BY(mutex_);
  JournalTimes times_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t sync_asked_ SEPAL_GUARDED_BY(mutex_) = 0;  // a sync up to here is asked for
  std::uint64_t frames_ SEPAL_GUARDED_BY(mutex_) = 0;
  FailedSave failed_save_ SEPAL_GUARDED_BY(mutex_);
  bool reserve_missing_ SEPAL_GUARDED_BY(mutex_) = false;
  bool waits_for_save_ SEPAL_GUARDED_BY(mutex_) = false;
  std::string refusal_ SEPAL_GUARDED_BY(mutex_);
  std::string sync_error_ SEPAL_GUARDED_BY(mutex_);       // of the last sync that failed
  std::string preparing_error_ SEPAL_GUARDED_BY(mutex_);  // the last attempt's; empty: it succeeded

  Condition wake_;           // wakes the journal's thread
  Condition synced_or_not_;  // wakes the callers of await_sync()
  bool ending_ SEPAL_GUARDED_BY(mutex_) = false;
};

}  // namespace sepal::storage
