// A run of the key table: all keys whose hashes begin with the same `depth` bits, in the order of their
// hashes.
//
//     hashes_    | h0 <= h1 <= h2 <= ...        8 bytes each, searched alone
//     entries_   | e0    e1    e2    ...        key and filter, touched for the match only
//
// The hashes of keys are spread evenly, so the place of a hash follows from its value: the search begins
// there and is off by a few places, within a cache line or two. When they are not spread evenly (somebody
// chose the keys) the search widens by doubling and ends in a binary search, so it costs a logarithm at
// worst.
//
// Arrays grow and shrink in small steps (spare_of), not by doubling: at most `capacity_max` entries are
// moved, and the table's memory stays close to what its entries need.
#pragma once

#include <sepal/keyspace/keyspace.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "stored_key.hpp"

namespace sepal::keyspace {

struct Entry {
  StoredKey key;
  FilterPtr filter;
};

// Guarded by the gate, as the keyspace is.
class Segment {
 public:
  // A segment of so many entries is split before it takes another, where the table allows.
  static constexpr std::size_t capacity_max = 256;
  static constexpr std::size_t not_found = ~std::size_t{0};
  // Of one entry, without a long key's bytes.
  static constexpr std::uint64_t entry_bytes = sizeof(std::uint64_t) + sizeof(Entry);

  explicit Segment(std::uint32_t depth) : depth_(depth) {}

  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] std::size_t size() const { return hashes_.size(); }
  [[nodiscard]] std::uint64_t hash_at(std::size_t index) const { return hashes_[index]; }
  [[nodiscard]] const Entry& at(std::size_t index) const { return entries_[index]; }
  [[nodiscard]] Entry& at(std::size_t index) { return entries_[index]; }
  // Memory of this segment, without long keys' bytes and filters.
  [[nodiscard]] std::uint64_t byte_count() const {
    return sizeof(Segment) + hashes_.capacity() * sizeof(std::uint64_t) + entries_.capacity() * sizeof(Entry);
  }

  // `hash` begins with the bits of this segment, here and below.
  // The index of the first entry whose hash is not below `hash`; size() when there is none.
  [[nodiscard]] std::size_t lower_bound(std::uint64_t hash) const;
  // The index of the key, or not_found.
  [[nodiscard]] std::size_t find(std::uint64_t hash, std::string_view key) const;
  // The key must not be there.
  void insert(std::uint64_t hash, std::string_view key, FilterPtr filter);
  FilterPtr take(std::size_t index);

  // Goes one bit deeper: keeps the entries whose next bit is 0 and returns those whose next bit is 1.
  [[nodiscard]] std::unique_ptr<Segment> split();
  // The inverse: takes all entries of the segment that differs in the last bit only, which is 1 there.
  void absorb(Segment& upper);

 private:
  // Places that are kept free, so that not each insert moves the arrays to new memory.
  [[nodiscard]] static std::size_t spare_of(std::size_t entry_count) { return entry_count / 8 + 4; }
  void reallocate(std::size_t capacity);

  std::uint32_t depth_;
  std::vector<std::uint64_t> hashes_;
  std::vector<Entry> entries_;
};

}  // namespace sepal::keyspace
