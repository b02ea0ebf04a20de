#include "journal_log.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <thread>

// GCC says that ThreadSanitizer takes no notice of fences. Nothing here depends on that: it would only not
// see an order that is there.
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif

namespace sepal::storage {
namespace {

using keyspace::Admission;
using keyspace::DatabaseKey;

// So long that heads and repeated keys take little, so short that the lock is not held for long.
constexpr std::uint64_t gathered_bytes_max = std::uint64_t{64} << 10;

// An add takes well below a microsecond, unless its thread lost its core.
constexpr int spins_max = 256;

}  // namespace

Admission JournalLog::admit(std::uint64_t bytes_max) {
  if (!core_.accepting()) return Admission::refused;
  const std::uint64_t pending_bytes = pending_.empty() ? 0 : format::frame_bytes(pending_.bytes().size());
  const std::uint64_t needed = bytes_max + pending_bytes;
  if (needed <= reserve_) return Admission::granted;
  return core_.refill(reserve_, needed);
}

// Whoever reads one of the bits that are set from here on, and then the count, finds it odd or even further
// on: the fence pairs with that in wait_for_adds().
void JournalLog::begin_add() {
  std::atomic<std::uint64_t>& count = add_counts_[own_].value;
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
}

void JournalLog::added(DatabaseKey key, std::span<const Fingerprint> fingerprints) {
  // With something pending the gate is closed, and the order must be kept.
  const bool gather = !pending_.empty();
  const std::uint64_t named_bytes = format::frame_bytes(added_bytes_max(key.key.size(), 1));
  SEPAL_ASSERT(named_bytes < core_.frame_bytes_max(), "a key that no frame has room for");
  const std::size_t at_once_max = 1 + (core_.frame_bytes_max() - named_bytes) / sizeof(Fingerprint);
  while (!fingerprints.empty()) {
    const auto some = fingerprints.first(std::min(fingerprints.size(), at_once_max));
    fingerprints = fingerprints.subspan(some.size());
    if (gather) make_room_in_frame(added_bytes_max(key.key.size(), some.size()));
    pending_.added(key, some);
    if (!gather) append_frame();
  }
  // Release: who sees the count even sees the position behind the frame.
  std::atomic<std::uint64_t>& count = add_counts_[own_].value;
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void JournalLog::created(DatabaseKey key, const filter::FilterOptions& options,
                         const filter::LayerPlan& first_layer) {
  make_room_in_frame(created_bytes_max(key.key.size()));
  pending_.created(key, options, first_layer);
}

void JournalLog::grown(DatabaseKey key, const filter::LayerPlan& layer) {
  make_room_in_frame(grown_bytes_max(key.key.size()));
  pending_.grown(key, layer);
}

void JournalLog::removed(DatabaseKey key) {
  make_room_in_frame(removed_bytes_max(key.key.size()));
  pending_.removed(key);
}

void JournalLog::expires(DatabaseKey key, keyspace::Deadline deadline) {
  make_room_in_frame(expires_bytes_max(key.key.size()));
  pending_.expires(key, deadline);
}

void JournalLog::renamed(std::uint32_t database, std::string_view from, std::string_view to) {
  make_room_in_frame(renamed_bytes_max(from.size(), to.size()));
  pending_.renamed(database, from, to);
}

// One that names a file begins a frame: who replays it reads the file before.
void JournalLog::adopted(DatabaseKey key, const keyspace::AdoptedFilter& filter) {
  if (filter.file.number != 0) commit();
  make_room_in_frame(adopted_bytes_max(key.key.size(), filter.image.size()));
  pending_.adopted(key, filter);
}

void JournalLog::moved(DatabaseKey from, std::uint32_t to_database) {
  make_room_in_frame(moved_bytes_max(from.key.size()));
  pending_.moved(from, to_database);
}

void JournalLog::swapped(std::uint32_t database, std::uint32_t other) {
  make_room_in_frame(swapped_bytes);
  pending_.swapped(database, other);
}

void JournalLog::mirrored(const keyspace::Mirror& mirror) {
  make_room_in_frame(mirrored_bytes_max(mirror.source.size(), mirror.target.size()));
  pending_.mirrored(mirror);
}

void JournalLog::flushed(std::uint32_t database) {
  make_room_in_frame(keyless_bytes);
  pending_.flushed(database);
}

void JournalLog::flushed_all() {
  make_room_in_frame(keyless_bytes);
  pending_.flushed_all();
}

void JournalLog::commit() {
  if (!pending_.empty()) append_frame();
}

void JournalLog::make_room_in_frame(std::uint64_t operation_bytes_max) {
  const std::uint64_t bytes_max = std::min(gathered_bytes_max, core_.frame_bytes_max());
  if (!pending_.empty() && format::frame_bytes(pending_.bytes().size() + operation_bytes_max) > bytes_max)
    append_frame();
}

void JournalLog::append_frame() {
  core_.append(pending_.bytes(), reserve_);
  pending_.clear();
}

std::uint64_t JournalLog::settle(bool answered_known) {
  if (answered_known) wait_for_adds();
  if (core_.policy() != JournalPolicy::always) return 0;
  core_.request_sync();
  return core_.position();
}

void JournalLog::wait_for_adds() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  for (std::size_t other = 0; other < add_counts_.size(); ++other) {
    const std::atomic<std::uint64_t>& count = add_counts_[other].value;
    const std::uint64_t seen = count.load(std::memory_order_acquire);
    if (seen % 2 == 0 || other == own_) continue;
    for (int spin = 0; count.load(std::memory_order_acquire) == seen; ++spin)
      if (spin >= spins_max) std::this_thread::yield();
  }
}

}  // namespace sepal::storage
