// How far the journal is to be trusted.
//
//     saved     the cut of the newest generation: it has what was recorded before
//     synced    a sync has covered what was recorded before
//     gap       something is missing before it, because a sync failed or because the journal was off. A sync
//               makes nothing durable until a generation was cut there or later.
//     durable   nothing before it is lost, whatever happens
//     marked    as SYNCED says; at first, up to where no mark is needed
//
// None of them falls, but for `marked` at a start. A failed sync also closes the journal, until it begins
// anew in other segments.
#pragma once

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "storage/format/synced_file.hpp"

namespace sepal::storage {

// Guarded by the lock of the journal's core. `end` is where the journal ends.
class JournalTrust {
 public:
  explicit JournalTrust(std::uint64_t position)
      : synced_(position), sync_begun_(position), durable_(position), marked_(position) {}

  [[nodiscard]] std::uint64_t synced() const { return synced_; }
  [[nodiscard]] std::uint64_t saved() const { return saved_; }
  [[nodiscard]] std::uint64_t gap() const { return gap_; }
  [[nodiscard]] std::uint64_t durable() const { return durable_; }
  [[nodiscard]] bool failed() const { return failed_; }  // a sync failed
  [[nodiscard]] std::uint64_t syncs() const { return syncs_; }
  [[nodiscard]] std::uint64_t failed_syncs() const { return failed_syncs_; }

  [[nodiscard]] bool unsynced(std::uint64_t end) const { return !failed_ && synced_ < end; }
  // The old segments are given up then, so a generation must have all that they may lack.
  [[nodiscard]] bool may_restart(std::uint64_t end) const {
    return failed_ && !directory_replaced_ && saved_ >= end;
  }
  [[nodiscard]] bool needs_save(std::uint64_t end) const {
    return saved_ < gap_ || (failed_ && saved_ < end);
  }

  // Returns the bytes since the sync before.
  std::uint64_t begin_sync(std::uint64_t end) {
    SEPAL_ASSERT(end >= sync_begun_, "a sync ends before the one before it");
    return end - std::exchange(sync_begun_, end);
  }
  void end_sync(std::uint64_t synced, std::uint64_t end) {
    SEPAL_ASSERT(synced >= synced_ && synced <= end,
                 "a sync ends before the one before it, or behind the end of the journal");
    SEPAL_ASSERT(!failed_, "a sync ends after one that failed");
    synced_ = synced;
    ++syncs_;
    // A replay does not get past an open gap, so no client may be told that a change behind it is durable.
    if (saved_ >= gap_) raise_durable(synced_);
  }
  // The kernel may have dropped the pages. A second sync would succeed and prove nothing, so only a
  // generation and new segments help.
  void fail_sync() {
    failed_ = true;
    ++failed_syncs_;
  }
  // The generations that were saved lie in the directory before.
  void replace_directory() {
    fail_sync();
    directory_replaced_ = true;
  }
  void generation_saved(std::uint64_t position) {
    directory_replaced_ = false;
    saved_ = std::max(saved_, position);
    raise_durable(saved_);
    // The generation has closed the gap: from here on syncs count again.
    if (!failed_ && saved_ >= gap_) raise_durable(synced_);
  }
  void lacks_before(std::uint64_t position) { gap_ = position; }
  // The journal goes on in other segments. The old ones may lack something before this position. The
  // generation that was saved has it.
  void restart(std::uint64_t end) {
    synced_ = end;
    gap_ = end;
    failed_ = false;
  }

  // --- the mark -------------------------------------------------------------------------------------------

  // Everything before the journal's beginning was synced. What SYNCED says is not known: it is written once,
  // even if nothing is recorded.
  void take_over(const SyncedMark& mark) {
    newest_ = mark;
    marked_ = 0;
  }
  // Notes the newest segment of a sync. True: it is another one than before.
  bool note_newest(std::uint64_t number, std::uint64_t first_position) {
    const bool is_new = number != newest_.segment_number;
    newest_.segment_number = number;
    newest_.first_position = first_position;
    return is_new;
  }
  // The mark follows the durable position: what lies behind a gap is durable only with the generation that
  // closes it.
  [[nodiscard]] bool needs_mark() const { return newest_.segment_number != 0 && marked_ < durable_; }
  [[nodiscard]] SyncedMark mark() const {
    SyncedMark mark = newest_;
    mark.position = durable_;
    return mark;
  }
  void mark_written(const SyncedMark& mark) {
    SEPAL_ASSERT(mark.position >= marked_, "SYNCED says less than it said before");
    marked_ = mark.position;
  }

 private:
  void raise_durable(std::uint64_t position) { durable_ = std::max(durable_, position); }

  std::uint64_t synced_;
  std::uint64_t sync_begun_;  // the last sync that began covers up to here
  std::uint64_t saved_ = 0;
  std::uint64_t gap_ = 0;
  std::uint64_t durable_;
  std::uint64_t marked_;
  SyncedMark newest_;  // the segment; its position is not used
  bool failed_ = false;
  bool directory_replaced_ = false;  // since the last generation
  std::uint64_t syncs_ = 0;
  std::uint64_t failed_syncs_ = 0;
};

}  // namespace sepal::storage
