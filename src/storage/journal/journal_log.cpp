#include "storage/journal/journal_log.hpp"

#include <algorithm>
#include <thread>

// GCC warns that ThreadSanitizer ignores fences. That is harmless here: ThreadSanitizer only misses an order
// that exists.
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif

namespace sepal::storage {
namespace {

using keyspace::Admission;
using keyspace::DatabaseKey;

// Long enough that heads and repeated keys cost little; short enough that the lock is held briefly.
constexpr std::uint64_t gathered_bytes_max = std::uint64_t{64} << 10;

// An add takes well below a microsecond, unless its thread has lost its core. So wait_for_adds() spins first.
constexpr int spins_max = 256;

}  // namespace

Admission JournalLog::admit(std::uint64_t bytes_max, keyspace::Change change) {
  if (!gathered_.load(std::memory_order_acquire)) return admit_now(bytes_max, change);
  const SpinGuard lock(gathering_);
  return admit_now(bytes_max, change);
}

Admission JournalLog::admit_now(std::uint64_t bytes_max, keyspace::Change change) {
  if (!core_.accepting(change)) return Admission::refused;
  const std::uint64_t pending_bytes = pending_.empty() ? 0 : format::frame_bytes(pending_.bytes().size());
  // What waits for its append has been admitted too, and its room is still a part of reserve_.
  const std::uint64_t needed = bytes_max + pending_bytes + group_bytes_;
  if (needed <= reserve_) return Admission::granted;
  if (needed > room_max_()) return Admission::never;
  return core_.refill(reserve_, needed, change);
}

// The count is odd before any bit of the add is set. So a worker that has read one of these bits finds the
// count odd, or already higher. The fence pairs with the one in wait_for_adds(), and with that of
// Value::hold(). Release, because wait_for_adds() may miss the end of the add before, and find this begin. It
// returns then, and must see the position behind the frames of that add.
void JournalLog::begin_add() {
  std::atomic<std::uint64_t>& count = add_counts_[own_].value;
  const std::uint64_t before = count.load(std::memory_order_relaxed);
  SEPAL_ASSERT(before % 2 == 0, "an add begins before the one before it has ended");
  count.store(before + 1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void JournalLog::added_some(DatabaseKey key, std::span<const Fingerprint> fingerprints) {
  // Inside the shared gate the frame is appended at once: when the count is even, another worker may answer
  // "known already", or record that the key is gone. With the gate closed, operations keep their order.
  append();
  add_to_frame(key, fingerprints, in_group_ || !pending_.empty());
}

void JournalLog::add_to_frame(DatabaseKey key, std::span<const Fingerprint> fingerprints, bool gather) {
  const std::uint64_t named_bytes = format::frame_bytes(added_bytes_max(key.key.size(), 1));
  SEPAL_ASSERT(named_bytes < core_.frame_bytes_max(), "a key that no frame has room for");
  // So many items fit into the longest frame, together with their key.
  const std::size_t at_once_max = 1 + (core_.frame_bytes_max() - named_bytes) / sizeof(Fingerprint);
  while (!fingerprints.empty()) {
    const auto some = fingerprints.first(std::min(fingerprints.size(), at_once_max));
    fingerprints = fingerprints.subspan(some.size());
    if (gather) make_room_for_items(key, some.size());
    pending_.added(key, some);
    if (!gather) append_frame();
  }
}

// Release, which pairs with the acquire loads in wait_for_adds(): a worker that sees the even count also sees
// the position behind the frames.
void JournalLog::added(DatabaseKey key, std::span<const Fingerprint> fingerprints) {
  added_some(key, fingerprints);
  std::atomic<std::uint64_t>& count = add_counts_[own_].value;
  const std::uint64_t before = count.load(std::memory_order_relaxed);
  SEPAL_ASSERT(before % 2 == 1, "an add ends that has not begun");
  count.store(before + 1, std::memory_order_release);
}

void JournalLog::record(const keyspace::Mutation& change) {
  // The operation has to stand first in its frame, so the frame before it ends here.
  if (begins_frame(change)) {
    SEPAL_ASSERT(!in_group_, "a filter in a file is adopted within a group");
    end_frame();
  }
  make_room_in_frame(operation_bytes_max(change));
  pending_.record(change);
}

void JournalLog::gather(const keyspace::Mutation& change) {
  SEPAL_ASSERT(!in_group_ && !begins_frame(change), "a change that needs the closed gate");
  const SpinGuard lock(gathering_);
  gathered_.store(true, std::memory_order_relaxed);
  record(change);
}

void JournalLog::gather_added(DatabaseKey key, std::span<const Fingerprint> fingerprints) {
  const SpinGuard lock(gathering_);
  gathered_.store(true, std::memory_order_relaxed);
  add_to_frame(key, fingerprints, true);
}

void JournalLog::gathered_all(const value::Value& made) {
  const SpinGuard lock(gathering_);
  // Another worker has had this log append since: then the value is recorded.
  if (!gathered_.load(std::memory_order_relaxed)) return;
  made.set_unrecorded();
  made_.push_back(&made);
}

void JournalLog::append() {
  // A worker that has to come behind a change has seen it in the table, or under the lock of the key. So it
  // sees that something has gathered.
  if (!gathered_.load(std::memory_order_acquire)) return;
  const SpinGuard lock(gathering_);
  if (!gathered_.load(std::memory_order_relaxed)) return;
  end_frame();
  // Behind the append: an add that finds a value recorded may append at once.
  for (const value::Value* const made : made_) made->set_recorded();
  made_.clear();
  gathered_.store(false, std::memory_order_release);
}

void JournalLog::append_others() {
  for (const auto& log : logs_)
    if (log.get() != this) log->append();
}

void JournalLog::commit() {
  SEPAL_ASSERT(!in_group_, "a group is ended before the gate opens");
  end_frame();
  // What the request did not use. Else a worker would keep it for good, and the others would find no room.
  if (core_.is_large(reserve_)) core_.trim(reserve_);
}

// What is pending comes into the group: after a crash it is there whole or not at all, too.
void JournalLog::begin_group() {
  SEPAL_ASSERT(!in_group_, "a group begins within another");
  in_group_ = true;
}

void JournalLog::end_group() {
  SEPAL_ASSERT(in_group_, "only a group that has begun ends");
  // One frame is whole by itself, and takes further operations until the commit. But room that the group did
  // not use goes back at once.
  SEPAL_ASSERT(group_.empty() == (group_bytes_ == 0), "the frames of a group have another length than noted");
  // An empty group is appended only to give the room back.
  if (!group_.empty() || core_.is_large(reserve_)) {
    end_frame();
    core_.append_group(group_, reserve_);
    group_.clear();
    group_bytes_ = 0;
  }
  in_group_ = false;
}

void JournalLog::end_frame() {
  if (!pending_.empty()) append_frame();
}

void JournalLog::make_room_in_frame(std::uint64_t operation_bytes_max) {
  make_room(operation_bytes_max, gathered_bytes_max);
}

// Items that join the operation before them do not name their key. However long the key is, many of them
// follow it in one frame; else a frame for each, with the key, would exceed what was admitted.
void JournalLog::make_room_for_items(DatabaseKey key, std::size_t count) {
  if (pending_.joins(key)) {
    make_room(count * sizeof(Fingerprint), gathered_bytes_max + key.key.size());
  } else {
    make_room_in_frame(added_bytes_max(key.key.size(), count));
  }
}

void JournalLog::make_room(std::uint64_t operation_bytes_max, std::uint64_t frame_bytes_max) {
  const std::uint64_t bytes_max = std::min(frame_bytes_max, core_.frame_bytes_max());
  if (!pending_.empty() && format::frame_bytes(pending_.bytes().size() + operation_bytes_max) > bytes_max)
    append_frame();
}

void JournalLog::append_frame() {
  if (in_group_) {
    group_.emplace_back(pending_.bytes().begin(), pending_.bytes().end());
    group_bytes_ += format::frame_bytes(pending_.bytes().size());
  } else {
    core_.append(pending_.bytes(), reserve_);
  }
  pending_.clear();
}

std::uint64_t JournalLog::seal_record(bool answered_known) {
  SEPAL_ASSERT(!gathered_.load(std::memory_order_relaxed),
               "a worker leaves the gate with changes that it gathered");
  // As in commit().
  if (core_.is_large(reserve_)) core_.trim(reserve_);
  // The position is read after this wait, so it covers the frames that were waited for.
  if (answered_known) {
    append_others();
    wait_for_adds();
  }
  if (core_.policy() != JournalPolicy::always) return 0;
  core_.request_sync();
  return core_.position();
}

// No circle of waits arises: a worker between begin_add() and added() may wait for the lock of a shard or of
// the journal, but never in seal_record().
void JournalLog::wait_for_adds() {
  // Pairs with the fence in begin_add(): if this worker has read a bit of an add, the loads below find the
  // count of that add odd, or already higher.
  std::atomic_thread_fence(std::memory_order_acquire);
  for (std::size_t other = 0; other < add_counts_.size(); ++other) {
    const std::atomic<std::uint64_t>& count = add_counts_[other].value;
    // Only the add that is under way at this moment has to end. The bits of later ones were not there when
    // this worker looked.
    const std::uint64_t seen = count.load(std::memory_order_acquire);
    if (seen % 2 == 0 || other == own_) continue;
    for (int spin = 0; count.load(std::memory_order_acquire) == seen; ++spin)
      if (spin >= spins_max) std::this_thread::yield();
  }
}

}  // namespace sepal::storage
