// Copies of a filter that are under way while it changes.
//
// A copy takes cell after cell: it locks a cell, and copies its bytes with the number of its last change. So
// each cell of the copy is exact at its own number, and a replay applies what is above (decisions/0052). A
// cell that is about to get other lines, or one more count beside them, is kept for the copies that have not
// had it yet: its record there has the length that the copy has promised. Copies share what is kept.
//
// Freezes have numbers. A cell has that of the last freeze behind which it got another length, or was made by
// a split. So the copy of freeze n takes a cell with a lower number as it is. Of a cell with n or a higher
// number it has the record that was kept; or it has none, and the entries are in the record of the cell from
// which this one was split.
//
// How much is kept. A cell is kept once for a copy, so a copy keeps at most one copy of the filter as it was
// at the freeze. The bytes are in the account (value/kept_bytes.hpp), so the limit of memory refuses the
// growth of a cell that would have to be kept.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/value/kept_bytes.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuckoo/native/lines.hpp"

namespace sepal::cuckoo {

class Cell;

// A cell in an image: a head, its lines, and its extras.
inline constexpr std::size_t cell_head_bytes = 64;
[[nodiscard]] std::size_t cell_record_bytes(std::size_t bytes_of_lines, std::size_t extra_count);

// A cell as it was. Immutable.
class KeptRecord {
 public:
  // With the cell locked. Null: no memory.
  [[nodiscard]] static std::shared_ptr<const KeptRecord> of(const Cell& cell);
  KeptRecord(Lines lines, std::size_t byte_count);
  [[nodiscard]] std::span<const std::byte> bytes() const;

 private:
  Lines lines_;
  std::size_t byte_count_;
  value::KeptBytes counted_;
};

// One copy. Locks are taken in this order: that of a cell, then Stills::mutex_, with which both are called.
class StillCells {
 public:
  // Whether the copy has not had the cell yet, nor keeps it.
  [[nodiscard]] virtual bool wants(const Cell& cell) const = 0;
  virtual void keep(const Cell& cell, std::shared_ptr<const KeptRecord> record) = 0;

 protected:
  ~StillCells() = default;
};

// The copies of a filter. Synchronised.
class Stills {
 public:
  // With the cell locked. Whether copies need it before its record gets another length.
  [[nodiscard]] bool need(const Cell& cell) const;
  // The same: the bytes that keep() may take.
  [[nodiscard]] std::uint64_t bytes_to_keep(const Cell& cell) const;
  // With the cell locked, before its record gets another length. False: there is no memory, and the cell must
  // stay as it is.
  [[nodiscard]] bool keep(Cell& cell);
  // The number of the last freeze.
  [[nodiscard]] std::uint64_t number() const { return number_.load(std::memory_order_relaxed); }

  // With the gate closed. Returns the number of the freeze.
  std::uint64_t add(StillCells& copy);
  void remove(StillCells& copy);
  [[nodiscard]] Mutex& mutex() { return mutex_; }

 private:
  [[nodiscard]] bool are_wanting(const Cell& cell);

  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint64_t> number_{0};
  Mutex mutex_;
  std::vector<StillCells*> copies_ SEPAL_GUARDED_BY(mutex_);
};

}  // namespace sepal::cuckoo
