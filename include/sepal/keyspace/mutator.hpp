// Changes a keyspace and tells a log of it. Every change that a request makes goes through here, so the
// journal has it. What any value has is changed by the members; what is of one kind, by the writer of that
// kind (writers/), which then calls told(). A replay or a load changes the keyspace directly.
//
// A change without its record, or half of one, must not live on. So the members that change something throw
// nothing: if a small allocation fails in the middle of a change, and the reserve is used up as well, the
// process ends there (decisions/0042).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/keyspace/part_list.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sepal::keyspace {

// Confined to a worker, inside the gate; members are shared or exclusive as those of the keyspace.
class Mutator {
 public:
  // `log` is null when no record is kept. `limbo` is null when the gate is closed, and else the caller's.
  Mutator(Keyspace& keyspace, MutationLog* log, Limbo* limbo = nullptr)
      : keyspace_(keyspace), log_(log), limbo_(limbo) {}

  // Whether the gate is shared.
  [[nodiscard]] bool shared() const { return limbo_ != nullptr; }
  // Whether the members *of one key* may be called: what they change may end a mirror, which concerns two
  // keys.
  [[nodiscard]] bool may_change_key() const { return !shared() || keyspace_.mirrors().empty(); }

  // Whether changes are told to a log.
  [[nodiscard]] bool recording() const { return log_ != nullptr; }
  // Whether anything may have been changed through this object.
  [[nodiscard]] bool changed() const { return changed_; }

  [[nodiscard]] Keyspace& keyspace() const { return keyspace_; }
  // Null when no record is kept.
  [[nodiscard]] MutationLog* log() const { return log_; }
  // For what other workers may still read. The gate is shared.
  [[nodiscard]] Limbo& limbo() const { return *limbo_; }
  // An item was already in the target of a mirror, so the reply must wait for records in flight.
  [[nodiscard]] bool target_knew() const { return target_knew_; }

  // --- for writers ----------------------------------------------------------------------------------------

  // Shared: before anything is changed that the value itself counts.
  void note_change() { changed_ = true; }
  void note_target_knew() { target_knew_ = true; }
  // Locks a key, and others, for a scope: one at a time. Changes of it that other workers have made are in
  // the record then. The lock comes behind the gate. What is taken inside it: the locks of a cut, of the
  // watches, of the housekeeper, of the plans and of logs.
  class KeyLock {
   public:
    KeyLock(const Mutator& changes, const KeyPlace& place);
    ~KeyLock();
    KeyLock(const KeyLock&) = delete;
    KeyLock& operator=(const KeyLock&) = delete;

   private:
    Mutex& mutex_;
  };
  // Calls end(object) when no other worker can read the object any more; none finds it from now on.
  void retire(void* object, void (*end)(void*)) {
    if (shared()) return limbo_->retire(object, end);
    end(object);
  }
  // With a KeyLock, or with the gate closed: the record of a change comes before the change. Behind the
  // change, call touch().
  void tell_ahead(const Mutation& change) {
    changed_ = true;
    if (log_ == nullptr) return;
    if (shared()) return log_->gather(change);
    log_->record(change);
  }
  void touch(const Mutation& change) { keyspace_.watches().touch(change, keyspace_); }
  // Exclusive. Tells the log and the watches of a change, if it was made: `made` is its success. Returns
  // that.
  template <class Success>
  Success told(Success made, const Mutation& change) {
    if (!made) return made;
    changed_ = true;
    if (log_ != nullptr) log_->record(change);
    keyspace_.watches().touch(change, keyspace_);
    return made;
  }

  // --- of one key: as the members of Keyspace --------------------------------------------------------------

  // Looks the key up, and removes it if it is past its deadline. The caller holds the lock, or has closed the
  // gate.
  void expire(KeyPlace& place, WallTime now) noexcept;
  // The caller holds the lock, or has closed the gate, and has told the records ahead.
  value::Value& insert(const KeyPlace& place, ValuePtr value, Deadline deadline) noexcept;

  // False as well for a key that is past its deadline at `now`, which is removed all the same; and, with
  // nothing changed, if its deadline is not the `expected` one.
  bool remove(DatabaseKey key, WallTime now = {}, std::optional<Deadline> expected = {}) noexcept;
  bool expire(DatabaseKey key, WallTime now) noexcept;
  // `expected`: false as well, and nothing changed, if the key's deadline is another one now.
  bool set_deadline(DatabaseKey key, Deadline deadline, std::optional<Deadline> expected = {}) noexcept;

  // --- exclusive: as the members of Keyspace ---------------------------------------------------------------

  Result<void> rename(std::uint32_t database, std::string_view from, std::string_view to) noexcept;
  // Puts a value that no other thread knows under a key, replacing what is there. Errors: those of
  // Keyspace::put. While a record is kept, `file` has the value as it is, or its image is at most
  // recorded_image_bytes_max long.
  Result<void> adopt(DatabaseKey key, ValuePtr value, Deadline deadline, const ImageFile& file = {}) noexcept;
  // Puts a value that was made of others of this database under a key; its image has the head `head`.
  // `takes_long`: not within a group. Errors: those of Keyspace::put.
  Result<void> remake(DatabaseKey key, ValuePtr value, std::span<const std::byte> head,
                      std::span<const Part> parts, bool takes_long = false) noexcept;
  Result<void> move(DatabaseKey from, std::uint32_t to_database) noexcept {
    return told(keyspace_.move(from, to_database), Moved{.key = from, .to_database = to_database});
  }
  void swap_databases(std::uint32_t database, std::uint32_t other) noexcept;
  void flush(std::uint32_t database) noexcept;
  void flush_all() noexcept;
  // Begins a mirror between two keys of a database, whole, with the number of items that the source has now.
  // Errors as Keyspace::begin_mirror.
  Result<void> begin_mirror(std::uint32_t database, std::string_view source,
                            std::string_view target) noexcept;
  bool end_mirror(DatabaseKey source) noexcept;

 private:
  void remove_shared(const KeyPlace& place);

  Keyspace& keyspace_;
  MutationLog* log_;
  Limbo* limbo_;
  bool target_knew_ = false;
  bool changed_ = false;
};

// The most that changes record, in bytes as WorkerLog::admit counts them. The sums do not wrap: there are not
// enough words in memory for that.

// For expire() and adopt() without a file.
[[nodiscard]] std::uint64_t record_bytes_of_adoption(std::size_t key_bytes);
// For expire() and remake().
[[nodiscard]] std::uint64_t record_bytes_of_remaking(std::size_t key_bytes);
// For expire() of each of these keys, and then for removing them, for renaming the first to the second, or
// for a flush.
[[nodiscard]] std::uint64_t record_bytes_of_keys(std::span<const std::string_view> keys);

}  // namespace sepal::keyspace
