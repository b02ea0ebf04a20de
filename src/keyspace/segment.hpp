// A run of the key table: all keys whose hashes begin with the same `depth` bits, in any order. One block of
// memory:
//
//     Segment | tag tag tag ... free | entry entry entry ... free [| deadline deadline ... free]
//
// A tag is the last byte of a key's hash. A search looks for the byte among the tags, which are a cache line
// or two, and compares the key at each place where the byte stands: another key has the same tag once in 256
// times.
//
// Readers take no lock. So a place is written once: an insert fills the next free place and then counts it,
// and a removal takes the value away. Such a place is *dead*: its tag stays, and nobody looks at its key,
// whose bytes end with the readers that have found the value before (base/limbo.hpp). Nothing moves within a
// block. The table copies the live entries to another block when this one is full, or has few of them;
// readers may go on in the old one, which lives until they have left.
//
// Deadlines are there only when one of the keys has had one since the block was made. The segment also notes
// a time before which none of its keys is due. A deadline that is moved back or goes leaves this time as it
// is, so it costs no search: due() may come before all deadlines, and what looks then corrects it.
//
// No more of a hash is kept than the tag. Code that needs the whole hash (to split a segment, to visit keys
// in order) computes it from the key again, which is cheaper than eight bytes in each entry.
//
// In a segment beyond capacity_max (an attacker chose the keys, see key_table.hpp) a search reads all its
// tags. It compares more keys only if the attacker chose the last bytes of the hashes as well, which no reply
// tells.
//
// Blocks have the sizes of the allocator (capacity_for), so all that it gives is room for entries.
#pragma once

#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "keyspace/stored_key.hpp"

namespace sepal::keyspace {

// A key, and a reference to its value. At a dead place this is null, and the key is not to be looked at.
struct Entry {
  StoredKey key;
  std::atomic<value::Value*> value;
};

// Members marked *shared* are called by any number of readers. The others need the lock of the table as well.
// Its size is a multiple of what entries need, so what stands behind it in the block is aligned.
class alignas(Entry) Segment {
 public:
  // A segment of so many live entries is split before it takes another, where the table allows it.
  static constexpr std::size_t capacity_max = 64;
  static constexpr std::size_t not_found = ~std::size_t{0};
  // The bytes of one entry, without a long key's bytes and without a deadline.
  static constexpr std::uint64_t entry_bytes = sizeof(std::uint8_t) + sizeof(Entry);

  // Makes an empty segment with room for `entry_count` entries and some more; for 0 entries, with no room at
  // all.
  [[nodiscard]] static std::unique_ptr<Segment> create(std::uint32_t depth, std::size_t entry_count,
                                                       bool with_deadlines = false);
  // Drops what moved_out() has not given to another segment.
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  // The block is longer than a Segment. Without this member, the compiler would hand sizeof(Segment) to the
  // sized delete of the library.
  static void operator delete(void* block) { ::operator delete(block); }

  // Shared.
  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  // The live entries.
  [[nodiscard]] std::size_t size() const { return used_.load(std::memory_order_relaxed) - dead_; }
  [[nodiscard]] bool is_full() const { return used_.load(std::memory_order_relaxed) == capacity_; }
  // Half of it is free or dead, so a smaller block pays. The threshold is far from full, so a key that comes
  // and goes moves little.
  [[nodiscard]] bool is_sparse() const {
    constexpr std::size_t free_always = 8;
    return size() == 0 ? capacity_ != 0 : capacity_ - size() > size() + free_always;
  }
  // Memory of this segment, without long keys' bytes and values.
  [[nodiscard]] std::uint64_t byte_count() const { return block_bytes(capacity_, with_deadlines_); }

  // The key and its value; null, and null, where the key is not there. Shared.
  struct Found {
    std::size_t index = not_found;
    value::Value* value = nullptr;
  };
  [[nodiscard]] Found find(std::uint64_t hash, std::string_view key) const;
  // Visits all live entries: visit(entry, value, deadline).
  template <class Visit>
  void visit_live(Visit visit) const;
  // An index below the places that are used. Dead places count: ask for the value before the key.
  [[nodiscard]] const Entry& at(std::size_t index) const { return entries()[index]; }
  [[nodiscard]] std::size_t used() const { return used_.load(std::memory_order_relaxed); }

  // The key must not be there, the value not be null, and the segment not be full.
  void insert(std::uint64_t hash, std::string_view key, ValuePtr value, Deadline deadline = no_deadline);
  // The entry is live. Readers may still use the value and the key.
  [[nodiscard]] ValuePtr take(std::size_t index, Limbo& limbo);
  // The same, and puts another value there, which is not null.
  [[nodiscard]] ValuePtr replace(std::size_t index, ValuePtr value);

  // Whether there is room for deadlines. Without room no key has a deadline. Shared.
  [[nodiscard]] bool with_deadlines() const { return with_deadlines_; }
  // Shared. At a dead place what it was last.
  [[nodiscard]] Deadline deadline(std::size_t index) const {
    return with_deadlines_ ? deadlines()[index].load(std::memory_order_relaxed) : no_deadline;
  }
  // No key is past its deadline before this time; no_deadline: no key has one.
  [[nodiscard]] Deadline due() const { return due_; }
  // The earliest deadline of all keys: a search.
  [[nodiscard]] Deadline earliest() const;
  // Makes due() exact.
  void correct_due() { due_ = earliest(); }
  // Only with_deadlines(), of a live entry.
  void set_deadline(std::size_t index, Deadline deadline);

  // Asks for the bytes of all keys, before a look at them.
  void prefetch_keys() const;
  // Gets the live entry of another segment, which keeps it for its readers, too. There must be room.
  void copy_from(const Segment& other, std::size_t index) { copy_entries(other, index, 1); }
  // The same for all live entries.
  void copy_live(const Segment& other);
  // All live entries are in other segments now, which own what they name. due() stays as it is: KeyTable
  // finds the segment in its order by it.
  void moved_out() { moved_out_ = true; }

  // Shared. Before a search or an insert: asks for the memory that it begins with ...
  void prefetch_tags() const;
  // ... and, when that is there, for the entry that it probably finds (returned), or else for the place that
  // an insert takes (returns null).
  [[nodiscard]] const Entry* prefetch_entry(std::uint64_t hash) const;

 private:
  Segment(std::uint32_t depth, std::uint32_t capacity, bool with_deadlines);

  [[nodiscard]] static std::size_t capacity_for(std::size_t entry_count, bool with_deadlines);
  // Keeps the entries behind the tags aligned.
  [[nodiscard]] static std::size_t tag_bytes(std::size_t capacity) {
    return (capacity + alignof(Entry) - 1) / alignof(Entry) * alignof(Entry);
  }
  [[nodiscard]] static std::uint64_t block_bytes(std::size_t capacity, bool with_deadlines) {
    return sizeof(Segment) + tag_bytes(capacity) +
           capacity * (sizeof(Entry) + (with_deadlines ? sizeof(Deadline) : 0));
  }
  [[nodiscard]] static std::uint8_t tag_of(std::uint64_t hash) { return static_cast<std::uint8_t>(hash); }
  [[nodiscard]] const std::uint8_t* tags() const { return reinterpret_cast<const std::uint8_t*>(this + 1); }
  [[nodiscard]] std::uint8_t* tags() { return reinterpret_cast<std::uint8_t*>(this + 1); }
  [[nodiscard]] const Entry* entries() const {
    return static_cast<const Entry*>(static_cast<const void*>(tags() + tag_bytes(capacity_)));
  }
  [[nodiscard]] Entry* entries() {
    return static_cast<Entry*>(static_cast<void*>(tags() + tag_bytes(capacity_)));
  }
  using StoredDeadline = std::atomic<Deadline>;
  [[nodiscard]] const StoredDeadline* deadlines() const {
    return static_cast<const StoredDeadline*>(static_cast<const void*>(entries() + capacity_));
  }
  [[nodiscard]] StoredDeadline* deadlines() {
    return static_cast<StoredDeadline*>(static_cast<void*>(entries() + capacity_));
  }
  [[nodiscard]] value::Value* value(std::size_t index) const {
    return at(index).value.load(std::memory_order_acquire);
  }
  void copy_entries(const Segment& other, std::size_t from, std::size_t count);
  // A key has this deadline now, which may be none.
  void note(Deadline deadline) {
    if (deadline != no_deadline && (due_ == no_deadline || deadline < due_)) due_ = deadline;
  }
  // The first index from `index` on, and below `end`, that has the tag, or not_found.
  [[nodiscard]] std::size_t find_tag(std::uint8_t tag, std::size_t index, std::size_t end) const;

  Deadline due_ = no_deadline;
  std::atomic<std::uint32_t> used_{0};  // places: of live entries, and dead ones
  std::uint32_t capacity_;
  std::uint32_t dead_ = 0;
  std::uint8_t depth_;
  bool with_deadlines_;
  bool moved_out_ = false;
};

static_assert(alignof(Deadline) <= alignof(Entry) && sizeof(Segment) == 24 && sizeof(Entry) == 24 &&
              sizeof(std::atomic<Deadline>) == sizeof(Deadline) &&
              alignof(Entry) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

template <class Visit>
void Segment::visit_live(Visit visit) const {
  for (std::size_t index = 0; index < used(); ++index)
    if (value::Value* const named = value(index)) visit(at(index), *named, deadline(index));
}

}  // namespace sepal::keyspace
