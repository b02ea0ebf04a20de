// What the workers and the journal's thread share: the segments, the room in them, and how things stand.
//
// Room. What is left of the active segment, and what each segment ahead has, less what may be left over at
// the end of the one before it. A worker reserves some of it at a time, so that a request that was admitted
// finds it whatever the others do; it gives back what it appends.
//
// Trust. Positions below `synced` were synced. After a failed sync, and while the journal was off, something
// is missing from it below the `gap`: nothing is durable by a sync until a generation has been cut at or
// after the gap. A failed sync closes the journal as well, until restart().
//
// Nothing in here waits for a disk: the thread asks what there is to do (Chores), does it without the lock,
// and says how it went.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/journal.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "journal_segment.hpp"

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
    bool tell = false;      // with on_progress: nobody has to wait for room any more
  };
  // A sync that is under way.
  struct Sync {
    struct Part {
      JournalSegment* segment = nullptr;
      SegmentRange range;
    };
    std::vector<Part> parts;  // oldest first
    std::uint64_t position = 0;
    std::uint64_t frames = 0;  // until then
  };

  JournalCore(const JournalOptions& options, std::uint64_t position);

  // --- a worker -------------------------------------------------------------------------------------------

  [[nodiscard]] JournalPolicy policy() const { return policy_.load(std::memory_order_relaxed); }
  // A hint; refill() knows.
  [[nodiscard]] bool accepting() const { return accepting_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t frame_bytes_max() const { return frame_bytes_max_; }
  // All that was appended before, by whoever this thread has heard of.
  [[nodiscard]] std::uint64_t position() const { return position_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t durable_position() const { return durable_.load(std::memory_order_acquire); }

  // Makes `reserve`, which is a worker's, at least `needed_bytes`, and more where there is plenty.
  keyspace::Admission refill(std::uint64_t& reserve, std::uint64_t needed_bytes);
  // The room was reserved.
  void append(std::span<const std::byte> body, std::uint64_t& reserve);
  void request_sync();

  // --- anybody --------------------------------------------------------------------------------------------

  void release(std::uint64_t& reserve);
  void set_policy(JournalPolicy policy);  // the gate is closed
  [[nodiscard]] std::uint64_t gap() const;
  void generation_saved(std::uint64_t position);
  // Has the thread sync up to here at once.
  void ask_sync(std::uint64_t position);
  // Waits for it.
  [[nodiscard]] Result<void> await_sync(std::uint64_t position);
  [[nodiscard]] JournalStatus status() const;  // without segment_count
  void end();

  // --- the thread -----------------------------------------------------------------------------------------

  [[nodiscard]] Chores wait_for_chores();
  [[nodiscard]] Chores chores();  // whatever time it is

  // Ends the page that is being stored into, so that nobody stores into what is being synced.
  [[nodiscard]] Sync begin_sync();
  void end_sync(const Sync& sync);
  void sync_failed(const std::string& reason);
  // Those that nothing is missing of any more.
  [[nodiscard]] JournalSegments take_synced();

  [[nodiscard]] bool wants_segment() const;
  void add_segment(std::unique_ptr<JournalSegment> segment);
  void preparing_failed(const std::string& reason);

  [[nodiscard]] std::size_t segments_to_restart() const;
  // Begins anew in `fresh`. Returns the segments until here, or `fresh` when it has to wait after all.
  [[nodiscard]] JournalSegments restart(JournalSegments fresh);

  // Those ahead, which are not needed any more.
  [[nodiscard]] JournalSegments take_ahead();
  // What is stored into next and has to be prepared.
  [[nodiscard]] std::vector<SegmentRange> next_pages();
  [[nodiscard]] std::uint64_t saved_position() const;
  // Why changes are refused; nothing when they are not.
  [[nodiscard]] std::optional<std::string> refusal() const;

 private:
  [[nodiscard]] std::uint64_t room() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t unreserved() const SEPAL_REQUIRES(mutex_);
  void append_frame(std::span<const std::byte> body, std::uint64_t body_checksum) SEPAL_REQUIRES(mutex_);
  void append_resumed() SEPAL_REQUIRES(mutex_);
  void rotate() SEPAL_REQUIRES(mutex_);
  void raise_durable(std::uint64_t position) SEPAL_REQUIRES(mutex_);
  void refuse(const std::string& reason) SEPAL_REQUIRES(mutex_);
  void accept() SEPAL_REQUIRES(mutex_);
  void note_due() SEPAL_REQUIRES(mutex_);
  void widen_window(std::uint64_t bytes) SEPAL_REQUIRES(mutex_);
  [[nodiscard]] bool short_of_segments() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] bool unsynced() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] bool may_restart() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] bool needs_save() const SEPAL_REQUIRES(mutex_);
  void ask_save() SEPAL_REQUIRES(mutex_);
  [[nodiscard]] SteadyTime sync_time() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] SteadyTime next_time() const SEPAL_REQUIRES(mutex_);
  [[nodiscard]] Chores chores_at(SteadyTime now) SEPAL_REQUIRES(mutex_);

  const JournalOptions options_;
  const std::uint64_t frame_bytes_max_;
  const std::uint64_t reserve_bytes_;  // taken at once, where there is plenty

  std::atomic<JournalPolicy> policy_;
  std::atomic<bool> accepting_{true};
  std::atomic<bool> sleeping_{false};  // the thread is
  alignas(64) std::atomic<std::uint64_t> position_;
  std::atomic<std::uint64_t> durable_;

  alignas(64) mutable Mutex mutex_;  // Lock order: inside the gate; the innermost.
  std::unique_ptr<JournalSegment> active_ SEPAL_GUARDED_BY(mutex_);  // null before the first
  // Only the thread takes segments out, so that it may use them without the lock.
  JournalSegments written_ SEPAL_GUARDED_BY(mutex_);  // before the active one, not all synced; oldest first
  std::deque<std::unique_ptr<JournalSegment>> ahead_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t reserved_ SEPAL_GUARDED_BY(mutex_) = 0;  // by all workers
  std::uint64_t wanted_ SEPAL_GUARDED_BY(mutex_) = 0;    // room that somebody waits for
  std::uint64_t synced_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t sync_begun_ SEPAL_GUARDED_BY(mutex_);      // the last: up to here
  std::uint64_t sync_asked_ SEPAL_GUARDED_BY(mutex_) = 0;  // up to here, at once
  std::uint64_t saved_ SEPAL_GUARDED_BY(mutex_) = 0;       // by a generation
  std::uint64_t gap_ SEPAL_GUARDED_BY(mutex_) = 0;
  bool failed_ SEPAL_GUARDED_BY(mutex_) = false;       // a sync did
  bool resumed_due_ SEPAL_GUARDED_BY(mutex_) = false;  // to be recorded before anything else
  bool ask_due_ SEPAL_GUARDED_BY(mutex_) = false;      // for a save
  bool tell_due_ SEPAL_GUARDED_BY(mutex_) = false;
  std::string refusal_ SEPAL_GUARDED_BY(mutex_);
  std::string preparing_error_ SEPAL_GUARDED_BY(mutex_);  // of the last attempt; empty: it went well
  std::uint64_t frames_ SEPAL_GUARDED_BY(mutex_) = 0;
  std::uint64_t syncs_ SEPAL_GUARDED_BY(mutex_) = 0;
  std::uint64_t failed_syncs_ SEPAL_GUARDED_BY(mutex_) = 0;

  Condition wake_;           // of the thread
  Condition synced_or_not_;  // of those that wait for a sync
  bool ending_ SEPAL_GUARDED_BY(mutex_) = false;
  bool due_ SEPAL_GUARDED_BY(mutex_) = false;      // something that has no time
  SteadyTime last_sync_ SEPAL_GUARDED_BY(mutex_);  // its beginning
  SteadyTime gathered_at_ SEPAL_GUARDED_BY(mutex_){SteadyTime::min()};
  std::uint64_t frames_synced_ SEPAL_GUARDED_BY(mutex_) = 0;
  SteadyTime retry_time_ SEPAL_GUARDED_BY(mutex_);
  std::chrono::milliseconds retry_delay_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t window_bytes_ SEPAL_GUARDED_BY(mutex_);  // of pages prepared
  bool pages_due_ SEPAL_GUARDED_BY(mutex_) = false;
  SteadyTime pages_time_ SEPAL_GUARDED_BY(mutex_);
};

}  // namespace sepal::storage
