// One layer of a filter: its cells, found by root and fraction. Cells split one by one while other threads
// read and write the rest.
//
//     directory   for each root 2^depth pointers; several may be of one cell
//
// A writer that splits a cell has locked it. Then it takes the directory's lock, for its pointers. A reader
// may still have the old directory, and find the cell that was split: the cell tells that the fraction is not
// in its range, and the reader loads the directory again.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/base/spin_lock.hpp>
#include <sepal/cuckoo/native/memory.hpp>
#include <sepal/cuckoo/native/plan.hpp>
#include <sepal/value/bitmap.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cuckoo/native/cell.hpp"
#include "cuckoo/native/lines.hpp"
#include "cuckoo/native/stills.hpp"

namespace sepal::cuckoo {

__extension__ using Product = unsigned __int128;

// Where an item is in all layers.
struct ItemPlace {
  std::uint32_t root;
  std::uint64_t fraction;
};
[[nodiscard]] inline ItemPlace place_of(std::uint64_t hash, std::uint32_t root_count) {
  const auto product = static_cast<Product>(hash) * root_count;
  return {.root = static_cast<std::uint32_t>(product >> 64), .fraction = static_cast<std::uint64_t>(product)};
}

// What a change of cells needs of the filter.
struct Changer {
  Memory& memory;
  Stills& stills;
  Account& account;  // of the filter
  // A replay: the number that the change has in the journal. A full layer takes what the journal has.
  std::optional<std::uint64_t> recorded{};

  [[nodiscard]] bool may_take(std::uint64_t bytes) const { return account.may_take(bytes, memory); }
  void took(std::int64_t bytes) const { account.took(bytes, memory); }
};

enum class Put : std::uint8_t { done, no_room, no_memory };

class Layer {
 public:
  // All cells as they begin. Null when there is no memory. The plan outlives the layer.
  [[nodiscard]] static std::unique_ptr<Layer> make(const Plan& plan, std::uint32_t index);
  // Without cells: add_loaded() adds them. `lines` has the lines of them all.
  [[nodiscard]] static std::unique_ptr<Layer> make_empty(const Plan& plan, std::uint32_t index);
  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // What make() takes.
  [[nodiscard]] static std::uint64_t byte_count(const Plan& plan, std::uint32_t index);

  // All but the lines and the extras of cells that grow; with the gate closed.
  [[nodiscard]] std::uint64_t head_bytes() const;
  [[nodiscard]] const LayerPlan& plan() const { return plan_.layers[index_]; }
  [[nodiscard]] std::uint32_t root_count() const { return plan_.root_count; }
  // The form that all cells of a new layer have.
  [[nodiscard]] Cell::Form first_form() const { return {.shape = shape_of(0, plan().remainder_bits_first)}; }

  // --- any thread inside the gate -------------------------------------------------------------------------

  struct Entry {
    std::uint32_t quotient;
    std::uint64_t remainder;
  };
  // The cell may have been split since.
  [[nodiscard]] Cell& find(const ItemPlace& at) const {
    return directory_.load(std::memory_order_acquire)->find(at);
  }
  // Locks the cell that has the place.
  [[nodiscard]] Cell& lock(const ItemPlace& at) const;
  // Whether the layer cannot tell two items apart.
  [[nodiscard]] bool are_the_same(const ItemPlace& a, const ItemPlace& b) const {
    const auto number = [&](const ItemPlace& at) {
      return static_cast<std::uint64_t>((static_cast<Product>(at.fraction) * identities(0)) >> 64);
    };
    return a.root == b.root && number(a) == number(b);
  }
  // How often the item's identity is there, counted up to `max`, which is at most copies_in_slots.
  [[nodiscard]] std::uint32_t count(const ItemPlace& at, std::uint32_t max) const;
  // The same for a caller who has locked the cell that has the place.
  [[nodiscard]] std::uint32_t count_locked(const Cell& cell, const ItemPlace& at) const;
  // Sets for each item, at most looks_max, whether its identity is there.
  static constexpr std::size_t looks_max = word_bits;
  void contains(std::span<const ItemPlace> items, std::span<bool> present) const;
  // What a look-up or a change reads first, and second.
  void prefetch_cell(const ItemPlace& at) const { __builtin_prefetch(&find(at)); }
  void prefetch_line(const ItemPlace& at) const {
    const Cell::Begun begun = find(at).begin_read();
    if (begun.lines != nullptr) __builtin_prefetch(sought(begun, at.fraction, identities(0)).line);
  }
  // All of them.
  [[nodiscard]] std::uint64_t count_all(const ItemPlace& at) const;
  // Calls visit(cell) for each cell, in the order of roots and fractions. With the gate closed it sees all of
  // them; else cells that are split meanwhile may be seen as they were.
  template <class Visit>
  void each_cell(Visit visit) const {
    const Directory& directory = *directory_.load(std::memory_order_acquire);
    const Cell* last = nullptr;
    for (std::size_t at = 0; at < directory.cells.size(); ++at) {
      if (at + cells_ahead < directory.cells.size())
        directory.cells[at + cells_ahead].load(std::memory_order_acquire)->prefetch();
      Cell* const cell = directory.cells[at].load(std::memory_order_acquire);
      if (cell != last) visit(*cell);
      last = cell;
    }
  }
  // The first one in that order.
  [[nodiscard]] Cell& first_cell() const { return *first_; }

  // A hash that has this entry in a cell of this range. Nothing: no hash has it.
  [[nodiscard]] std::optional<std::uint64_t> hash_of(const Cell::Form& form, std::uint64_t first,
                                                     std::uint32_t root, std::uint64_t entry) const;

  // --- with the cell locked ---------------------------------------------------------------------------

  // Adds a copy to the cell, which may grow or split, counts it, and sets the number of the change; or adds
  // nothing. After a split `cell` is the one that has the place, locked, and the other one is not.
  [[nodiscard]] Put put(Cell*& cell, const ItemPlace& at, const Changer& by, std::uint64_t& number);
  // Removes a copy, counts that, and sets the number of the change. False if there is none. The cell may
  // shrink.
  [[nodiscard]] bool take(Cell& cell, const ItemPlace& at, const Changer& by, std::uint64_t& number);

  // --- no other thread knows the layer ---------------------------------------------------------------------

  // The lines of all cells of a fixed layer: zeros. False: there is no memory.
  [[nodiscard]] bool make_fixed_lines(value::Paging paging);
  // Those of one cell.
  [[nodiscard]] std::uint64_t* fixed_lines(std::uint32_t root) const;
  // Adds a cell behind those that are there. The cell does not own its lines.
  Cell& add_loaded(const Cell::Form& form, std::uint64_t first, std::uint32_t root, std::uint64_t* lines);
  // Whether a cell of this layer can have this form, and entries below this.
  [[nodiscard]] bool may_have(const Cell::Form& form, std::uint64_t entries_end) const;
  // Call it behind the last. Errors: damaged, if the cells do not cover the layer, or some of it twice, or
  // are much deeper than the average.
  Result<void> complete();

 private:
  static constexpr std::size_t cells_ahead = 8;
  struct Directory {
    Directory(std::uint32_t root_count, unsigned splits)
        : depth(splits), cells(std::size_t{root_count} << splits) {}
    [[nodiscard]] std::size_t index(const ItemPlace& at) const {
      return depth == 0 ? at.root : (std::size_t{at.root} << depth) | at.fraction >> (word_bits - depth);
    }
    [[nodiscard]] Cell& find(const ItemPlace& at) const {
      return *cells[index(at)].load(std::memory_order_acquire);
    }
    unsigned depth;
    std::vector<std::atomic<Cell*>> cells;
  };

  [[nodiscard]] static std::uint64_t head_bytes(std::uint64_t cell_count, std::uint64_t entry_count);
  Layer(const Plan& plan, std::uint32_t index) : plan_(plan), index_(index) {}
  [[nodiscard]] std::uint64_t identities(unsigned depth) const {
    return std::uint64_t{plan_.root_quotients} << plan().identity_bits >> depth;
  }
  [[nodiscard]] std::uint64_t quotients_of(unsigned depth, unsigned remainder_bits) const {
    return (identities(depth) + low_bits(remainder_bits)) >> remainder_bits;
  }
  [[nodiscard]] CellShape shape_of(unsigned depth, unsigned remainder_bits) const {
    return {static_cast<std::uint32_t>(quotients_of(depth, remainder_bits)), remainder_bits};
  }
  [[nodiscard]] Entry entry_of(const Cell::Form& form, std::uint64_t fraction) const {
    return entry_of(form, fraction, identities(0));
  }
  [[nodiscard]] static Entry entry_of(const Cell::Form& form, std::uint64_t fraction, std::uint64_t all) {
    const std::uint64_t rest = fraction << form.depth;
    const auto number = static_cast<std::uint64_t>((static_cast<Product>(rest) * (all >> form.depth)) >> 64);
    return {.quotient = static_cast<std::uint32_t>(number >> form.shape.remainder_bits()),
            .remainder = number & low_bits(form.shape.remainder_bits())};
  }
  // The directory has an entry for each range of the deepest cell, so it must not be much deeper than the
  // average. Hashes are spread evenly. But a client that loads pieces begins with the cells of one range,
  // which are as deep as those of the whole filter: a directory of 1 MiB suffices for billions of items. And
  // someone may choose items, or make an image, to let a filter take much memory.
  [[nodiscard]] bool may_be_as_deep(unsigned depth, std::size_t cell_count) const {
    constexpr std::uint64_t entries_a_cell = 8;
    constexpr std::uint64_t entries_of_any = std::uint64_t{1} << 17;
    const std::uint64_t entries_max = std::max(entries_of_any, entries_a_cell * cell_count);
    return plan_.root_count <= entries_max && depth < word_bits / 2 &&
           std::uint64_t{plan_.root_count} << depth <= entries_max;
  }
  [[nodiscard]] static EntrySought sought(const Cell::Begun& begun, std::uint64_t fraction,
                                          std::uint64_t all) {
    const Entry entry = entry_of(begun.form, fraction, all);
    return CellLines::entry_sought(begun.form.shape, begun.lines, entry.quotient, entry.remainder);
  }
  [[nodiscard]] static std::uint64_t number_of(const Cell::Form& form, const Entry& entry) {
    return std::uint64_t{entry.quotient} << form.shape.remainder_bits() | entry.remainder;
  }
  // Before the cell's record gets another length, for which `bytes` are taken. False: there is no memory.
  [[nodiscard]] static bool may_resize(Cell& cell, std::uint64_t bytes, const Changer& by);
  [[nodiscard]] static Put ensure_lines(Cell& cell, const Changer& by);
  [[nodiscard]] bool is_full(const Cell& cell, const Changer& by) const;
  [[nodiscard]] Put grow(Cell*& cell, const ItemPlace& at, const Changer& by);
  [[nodiscard]] static Put put_extra(Cell& cell, std::uint64_t entry, const Changer& by);
  [[nodiscard]] static bool take_extra(Cell& cell, std::uint64_t entry, const Changer& by);
  [[nodiscard]] Put split(Cell*& cell, const ItemPlace& at, const Changer& by);
  void shrink(Cell& cell, const Changer& by);
  // The cell's entries in lines of another shape for the same depth. Sets `done` where that cannot be.
  [[nodiscard]] static Lines rebuilt(const Cell& cell, const CellShape& shape, Put& done);
  static void replace_lines(Cell& cell, const Cell::Form& form, Lines lines, const Changer& by);
  void enter(std::unique_ptr<Cell> right, const Changer& by);

  const Plan& plan_;
  const std::uint32_t index_;
  std::atomic<Directory*> directory_{nullptr};
  SpinLock directory_lock_;
  std::vector<std::unique_ptr<Cell>> cells_;  // all; guarded by directory_lock_
  Cell* first_ = nullptr;                     // from complete() on
  std::optional<value::Bitmap> lines_;        // of the cells of a fixed layer
};

}  // namespace sepal::cuckoo
