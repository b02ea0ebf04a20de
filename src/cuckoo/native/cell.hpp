// A cell: at most 64 KiB of entries that one writer at a time changes, and that readers read without a lock.
//
// A writer locks the cell by making its version odd. A reader notes the version, reads, and reads the version
// again: if it is still the same, and even, the reader saw the cell at one instant. Lines that a cell no
// longer uses are freed when no reader can be left (Owner::retire).
#pragma once

#include <sepal/base/thread_annotations.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <vector>

#include "cuckoo/cells/cell_lines.hpp"

namespace sepal::cuckoo {

// Entries of which there are more than copies_in_slots: those have a count beside the lines. So an item that
// is added a million times takes 16 bytes, and fills no cell.
inline constexpr std::uint32_t copies_in_slots = 3;
struct Extra {
  std::uint64_t entry = 0;  // quotient << remainder_bits | remainder
  // Copies beyond copies_in_slots. 0: all were removed, while a copy of the filter was under way that has
  // promised the length of the cell's record.
  std::uint64_t count = 0;
};
inline void forget_zeros(std::vector<Extra>& extras) {
  std::erase_if(extras, [](const Extra& extra) { return extra.count == 0; });
}

// A cell takes no more changes when it has had so many, or has so many items: far above what can be counted,
// and far below what would wrap. Only crafted images come near it.
inline constexpr std::uint64_t cell_count_max = std::uint64_t{1} << 48;

class alignas(64) Cell {
 public:
  struct Form {
    CellShape shape;
    std::uint8_t depth = 0;  // how often its root was split down to it
    friend bool operator==(const Form&, const Form&) = default;
  };
  // `first`: the first fraction of its range; the lowest 64 - depth bits are zeros.
  Cell(const Form& form, std::uint64_t first, std::uint32_t root, std::uint8_t layer)
      : root_(root), first_(first), layer_(layer) {
    set_form(form);
  }
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  // --- readers --------------------------------------------------------------------------------------------

  // Calls read(form, lines) until it has seen the cell at one instant. Returns false, without that, if the
  // fraction is not in its range any more. `lines` is null for a cell that has none yet.
  template <class Read>
  [[nodiscard]] bool read(std::uint64_t fraction, Read read) const;
  // Whether the fraction is in its range while it has this form.
  [[nodiscard]] bool covers(const Form& form, std::uint64_t fraction) const {
    return form.depth == 0 || (fraction ^ first_) >> (word_bits - form.depth) == 0;
  }
  // A read in two parts, so that memory comes meanwhile.
  struct Begun {
    const Cell* cell;
    std::uint32_t version;
    bool is_whole;  // form and lines belong together; else a writer is there
    Form form;
    std::uint64_t* lines;
  };
  [[nodiscard]] Begun begin_read() const {
    const std::uint32_t version = version_.load(std::memory_order_acquire);
    // By acquire: the second load of the version stays behind these.
    const std::uint64_t form = form_.load(std::memory_order_acquire);
    std::uint64_t* const lines = lines_.load(std::memory_order_acquire);
    const bool is_whole = (version & 1) == 0 && version_.load(std::memory_order_relaxed) == version;
    return {.cell = this, .version = version, .is_whole = is_whole, .form = form_of(form), .lines = lines};
  }
  // Behind what was read and an acquire fence: whether no writer has been there since begin_read().
  [[nodiscard]] bool is_still_at(std::uint32_t version) const {
    return version_.load(std::memory_order_relaxed) == version;
  }
  // Any thread; exact at some instant of each.
  [[nodiscard]] std::uint64_t item_count() const { return items_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t change_count() const { return changes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t removed_count() const { return removed_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t extra_count() const { return extra_count_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t first() const { return first_; }
  [[nodiscard]] std::uint32_t root() const { return root_; }
  [[nodiscard]] std::uint8_t layer() const { return layer_; }
  // In the order of an image.
  [[nodiscard]] bool is_before(const Cell& other) const {
    return std::tie(layer_, root_, first_) < std::tie(other.layer_, other.root_, other.first_);
  }
  [[nodiscard]] const void* lines_address() const { return lines_.load(std::memory_order_relaxed); }
  void prefetch() const {
    constexpr std::size_t line_bytes_of_cache = 64;
    for (std::size_t at = 0; at < sizeof(Cell); at += line_bytes_of_cache)
      __builtin_prefetch(reinterpret_cast<const char*>(this) + at);
  }
  // Some form that the cell has or had: for a prefetch.
  [[nodiscard]] Form form_now() const { return form_of(form_.load(std::memory_order_relaxed)); }

  // --- the lock -------------------------------------------------------------------------------------------

  void lock();
  void unlock();

  // --- with the lock, or no other thread knows the cell ---------------------------------------------------

  [[nodiscard]] Form form() const { return form_now(); }
  [[nodiscard]] bool covers(std::uint64_t fraction) const { return covers(form(), fraction); }
  [[nodiscard]] std::uint64_t* lines() const { return lines_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool owns_lines() const { return owns_lines_; }
  void set(const Form& form, std::uint64_t* lines, bool owns_lines);
  // The next one of its layer, in the order of an image; null: it is the last.
  [[nodiscard]] Cell* next() const { return next_; }
  void set_next(Cell* next) { next_ = next; }
  // The last freeze behind which its record got another length, or it was made by a split (stills.hpp).
  [[nodiscard]] std::uint64_t freeze_number() const { return freeze_number_; }
  void set_freeze_number(std::uint64_t number) { freeze_number_ = number; }
  std::vector<Extra>& extras() { return extras_; }
  [[nodiscard]] const std::vector<Extra>& extras() const { return extras_; }

  // One more change, which a replay gives its number: the changes of several workers may come out of their
  // order. Returns the number.
  std::uint64_t count_change(std::optional<std::uint64_t> recorded) {
    const std::uint64_t number = recorded.value_or(change_count() + 1);
    changes_.store(std::max(number, change_count()), std::memory_order_relaxed);
    return number;
  }
  // Entries that take a slot.
  [[nodiscard]] std::uint64_t slots_used() const { return item_count() - extra_count(); }
  void count_extra(std::int64_t more) { set_extra_count(extra_count() + static_cast<std::uint64_t>(more)); }
  // The cell has become the lower half of what it was. `other`, the upper half, gets its extras, and the
  // counts of `count` entries in slots. `middle`: the first entry of the upper half.
  void give_half(Cell& other, std::uint64_t middle, std::uint64_t count);
  // An add and its removal had no effect, because the removal came first: it counts all the same.
  void count_pair() { removed_.store(removed_count() + 1, std::memory_order_relaxed); }
  void count_added() { items_.store(item_count() + 1, std::memory_order_relaxed); }
  void count_removed() {
    items_.store(item_count() - 1, std::memory_order_relaxed);
    removed_.store(removed_count() + 1, std::memory_order_relaxed);
  }
  // One of its counts is at cell_count_max.
  [[nodiscard]] bool is_worn_out() const {
    return (change_count() | item_count() | removed_count()) >= cell_count_max;
  }
  // The number of the last change that the image had of which this cell was loaded.
  [[nodiscard]] std::uint64_t loaded_change() const { return loaded_change_; }
  // Sets what the image has of a cell that was loaded.
  void set_loaded(std::uint64_t items, std::uint64_t changes, std::uint64_t removed,
                  std::vector<Extra> extras);

 private:
  void set_counts(std::uint64_t items, std::uint64_t changes, std::uint64_t removed) {
    items_.store(items, std::memory_order_relaxed);
    changes_.store(changes, std::memory_order_relaxed);
    removed_.store(removed, std::memory_order_relaxed);
  }
  void set_extra_count(std::uint64_t count) { extra_count_.store(count, std::memory_order_relaxed); }
  static std::uint64_t pack(const Form& form) {
    return form.shape.quotient_count() | std::uint64_t{form.shape.remainder_bits()} << 32 |
           std::uint64_t{form.depth} << 40;
  }
  static Form form_of(std::uint64_t packed) {
    return {.shape = CellShape(static_cast<std::uint32_t>(packed), (packed >> 32) & 0xff),
            .depth = static_cast<std::uint8_t>(packed >> 40)};
  }
  void set_form(const Form& form) { form_.store(pack(form), std::memory_order_relaxed); }

  std::atomic<std::uint32_t> version_{0};  // odd: locked
  std::uint32_t root_;
  std::uint64_t first_;
  std::atomic<std::uint64_t> form_{0};
  std::atomic<std::uint64_t*> lines_{nullptr};
  std::atomic<std::uint64_t> items_{0};
  std::atomic<std::uint64_t> changes_{0};
  std::atomic<std::uint64_t> removed_{0};
  std::vector<Extra> extras_;                  // in the order of `entry`
  std::atomic<std::uint64_t> extra_count_{0};  // the sum of their counts
  std::uint64_t loaded_change_ = 0;
  Cell* next_ = nullptr;
  std::uint64_t freeze_number_ = 0;
  const std::uint8_t layer_;
  bool owns_lines_ = false;
};

template <class Read>
bool Cell::read(std::uint64_t fraction, Read read) const {
  for (;;) {
    const Begun begun = begin_read();
    if (begun.is_whole) {
      const bool covered = covers(begun.form, fraction);
      if (covered) read(begun.form, begun.lines);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (is_still_at(begun.version)) return covered;
    }
    // The writer may have lost its core.
    if ((begun.version & 1) != 0) std::this_thread::yield();
  }
}

inline void Cell::lock() {
  constexpr int spins_max = 64;
  for (int round = 0;; ++round) {
    std::uint32_t version = version_.load(std::memory_order_relaxed);
    if ((version & 1) == 0 && version_.compare_exchange_weak(version, version + 1, std::memory_order_acquire))
      break;
    if (round >= spins_max) std::this_thread::yield();
  }
  // No store to the cell is seen before the odd version.
  std::atomic_thread_fence(std::memory_order_release);
}

inline void Cell::unlock() {
  version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

inline void Cell::set_loaded(std::uint64_t items, std::uint64_t changes, std::uint64_t removed,
                             std::vector<Extra> extras) {
  set_counts(items, changes, removed);
  loaded_change_ = changes;
  extras_ = std::move(extras);
  std::uint64_t count = 0;
  for (const Extra& extra : extras_) count += extra.count;
  set_extra_count(count);
}

inline void Cell::give_half(Cell& other, std::uint64_t middle, std::uint64_t count) {
  const auto from = std::ranges::lower_bound(extras_, middle, {}, &Extra::entry);
  other.extras_.assign(from, extras_.end());
  extras_.erase(from, extras_.end());
  std::uint64_t extra_count = 0;
  for (Extra& extra : other.extras_) {
    extra.entry -= middle;
    extra_count += extra.count;
  }
  other.set_extra_count(extra_count);
  set_extra_count(this->extra_count() - extra_count);
  const std::uint64_t moved = count + extra_count;
  other.set_counts(moved, change_count(), 0);
  set_counts(item_count() - moved, change_count(), removed_count());
  other.loaded_change_ = loaded_change_;
  other.freeze_number_ = freeze_number_;
  other.next_ = next_;
  next_ = &other;
}

inline void Cell::set(const Form& form, std::uint64_t* lines, bool owns_lines) {
  set_form(form);
  lines_.store(lines, std::memory_order_relaxed);
  owns_lines_ = owns_lines;
}

class CellGuard {
 public:
  explicit CellGuard(Cell& cell) : cell_(cell) { cell_.lock(); }
  ~CellGuard() { cell_.unlock(); }
  CellGuard(const CellGuard&) = delete;
  CellGuard& operator=(const CellGuard&) = delete;

 private:
  Cell& cell_;
};

}  // namespace sepal::cuckoo
