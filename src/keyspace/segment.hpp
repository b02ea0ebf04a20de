// A run of the key table: all keys whose hashes begin with the same `depth` bits, in any order. One block of
// memory:
//
//     Segment | tag tag tag ... free | entry entry entry ... free [| deadline deadline ... free]
//
// A tag is the last byte of a key's hash. A search looks for the byte among the tags, which are a cache line
// or two, and compares the key at each place where the byte stands: another key has the same tag once in 256
// times. An insert writes behind the last entry and moves nothing; a removal moves the last entry into the
// hole.
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
// The block has a fixed number of places. The table moves entries to a larger or smaller block. Blocks have
// the sizes of the allocator (capacity_for), so all that it gives is room for entries.
#pragma once

#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "keyspace/stored_key.hpp"

namespace sepal::keyspace {

struct Entry {
  StoredKey key;
  ValuePtr value;
};

// Guarded by the gate, as the keyspace is.
// Its size is then a multiple of what entries need, so what stands behind it in the block is aligned.
class alignas(Entry) Segment {
 public:
  // A segment of so many entries is split before it takes another, where the table allows it.
  static constexpr std::size_t capacity_max = 64;
  static constexpr std::size_t not_found = ~std::size_t{0};
  // The bytes of one entry, without a long key's bytes and without a deadline.
  static constexpr std::uint64_t entry_bytes = sizeof(std::uint8_t) + sizeof(Entry);

  // Makes an empty segment with room for `entry_count` entries and some more; for 0 entries, with no room at
  // all.
  [[nodiscard]] static std::unique_ptr<Segment> create(std::uint32_t depth, std::size_t entry_count,
                                                       bool with_deadlines = false);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  // The block is longer than a Segment. Without this member, the compiler would hand sizeof(Segment) to the
  // sized delete of the library.
  static void operator delete(void* block) { ::operator delete(block); }

  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool is_full() const { return size_ == capacity_; }
  // Half of it is free, so a smaller block pays. The threshold is far from full, so a key that comes and goes
  // moves nothing.
  [[nodiscard]] bool is_sparse() const {
    constexpr std::size_t free_always = 8;
    return size_ == 0 ? capacity_ != 0 : capacity_ - size_ > size_ + free_always;
  }
  // Memory of this segment, without long keys' bytes and values.
  [[nodiscard]] std::uint64_t byte_count() const { return block_bytes(capacity_, with_deadlines_); }

  // Indices are below size(). Valid until the segment changes.
  [[nodiscard]] const Entry& at(std::size_t index) const { return entries()[index]; }
  [[nodiscard]] Entry& at(std::size_t index) { return entries()[index]; }

  // The index of the key, or not_found.
  [[nodiscard]] std::size_t find(std::uint64_t hash, std::string_view key) const;
  // The key must not be there, and the segment not be full.
  void insert(std::uint64_t hash, std::string_view key, ValuePtr value);
  ValuePtr take(std::size_t index);

  // Whether there is room for deadlines. Without room no key has a deadline.
  [[nodiscard]] bool with_deadlines() const { return with_deadlines_; }
  [[nodiscard]] Deadline deadline(std::size_t index) const {
    return with_deadlines_ ? deadlines()[index] : no_deadline;
  }
  // No key is past its deadline before this time; no_deadline: no key has one.
  [[nodiscard]] Deadline due() const { return due_; }
  // The earliest deadline of all keys: a search.
  [[nodiscard]] Deadline earliest() const;
  // Makes due() exact.
  void correct_due() { due_ = earliest(); }
  // Only with_deadlines().
  void set_deadline(std::size_t index, Deadline deadline);

  // Asks for the bytes of all keys, before a look at them.
  void prefetch_keys() const;
  // Puts the entries whose keys `comes_first` accepts before the others. Returns how many it accepts.
  template <class ComesFirst>
  [[nodiscard]] std::size_t partition(ComesFirst comes_first);
  // Takes the entries of another segment from an index on. There must be room for them. The other segment's
  // due() stays as it is: KeyTable finds the segment in its order by it.
  void take_from(Segment& other, std::size_t first_index);

  // Before a search or an insert: asks for the memory that it begins with ...
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
  [[nodiscard]] const Deadline* deadlines() const {
    return static_cast<const Deadline*>(static_cast<const void*>(entries() + capacity_));
  }
  [[nodiscard]] Deadline* deadlines() {
    return static_cast<Deadline*>(static_cast<void*>(entries() + capacity_));
  }
  // A key has this deadline now, which may be none.
  void note(Deadline deadline) {
    if (deadline != no_deadline && (due_ == no_deadline || deadline < due_)) due_ = deadline;
  }
  // The first index from `index` on that has the tag, or not_found.
  [[nodiscard]] std::size_t find_tag(std::uint8_t tag, std::size_t index) const;

  Deadline due_ = no_deadline;
  std::uint32_t depth_;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_;
  bool with_deadlines_;
};

static_assert(alignof(Deadline) <= alignof(Entry) && sizeof(Segment) % alignof(Entry) == 0 &&
              alignof(Entry) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

template <class ComesFirst>
std::size_t Segment::partition(ComesFirst comes_first) {
  prefetch_keys();
  std::size_t first_count = 0;
  for (std::size_t end = size_; first_count < end;) {
    if (comes_first(at(first_count).key.view())) {
      ++first_count;
      continue;
    }
    --end;
    // Tag, deadline and entry of one index belong together, in three arrays.
    std::swap(tags()[first_count], tags()[end]);
    if (with_deadlines_) std::swap(deadlines()[first_count], deadlines()[end]);
    std::swap(at(first_count), at(end));
  }
  return first_count;
}

}  // namespace sepal::keyspace
