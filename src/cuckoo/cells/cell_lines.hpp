// The lines of a cell: a quotient filter of at most 64 KiB, as it stands in memory and in images.
//
// An entry is a quotient and a remainder. The cell has the entries as a multiset, and its bytes follow from
// them alone, whatever the order of adds and removals.
//
// Entries of one quotient are a run: they stand side by side, in the order of their remainders. Runs stand in
// the order of their quotients. A run begins at the slot of its quotient's number, or later if that slot is
// taken by the runs before it. A line of 64 bytes has S slots:
//
//     offset      8 bits     the slots at the front of the line that runs of earlier lines take
//     occupied    S bits     bit i: there is a run of quotient i of this line
//     run end     S bits     bit i: slot i has the last entry of a run
//     remainders  S times r bits
//
// After Pandey, Bender, Johnson, Patro: A General-Purpose Counting Filter: Making Every Bit Count (2017),
// "rank and select quotient filter". There the offset is of blocks of 64 slots; here a block is a line.
//
// The last lines have no quotients: runs of the lines before them end there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cuckoo/cells/line_bits.hpp"

namespace sepal::cuckoo {

inline constexpr unsigned remainder_bits_max = 48;
inline constexpr unsigned line_offset_bits = 8;

// How many quotients and lines a cell has.
class CellShape {
 public:
  static constexpr std::uint32_t line_count_max = 1024;

  // A cell without lines.
  CellShape() = default;
  // `quotient_count` is 1 to quotients_max(remainder_bits); `remainder_bits` 1 to remainder_bits_max.
  CellShape(std::uint32_t quotient_count, unsigned remainder_bits)
      : quotient_count_(quotient_count),
        remainder_bits_(static_cast<std::uint8_t>(remainder_bits)),
        slots_per_line_(static_cast<std::uint8_t>(slots_of_line(remainder_bits))) {}

  [[nodiscard]] static constexpr unsigned slots_of_line(unsigned remainder_bits) {
    return slot_counts[remainder_bits];
  }
  // The most quotients that a cell of line_count_max lines has.
  [[nodiscard]] static constexpr std::uint32_t quotients_max(unsigned remainder_bits) {
    return (line_count_max - spill_max) * slots_of_line(remainder_bits);
  }

  [[nodiscard]] std::uint32_t quotient_count() const { return quotient_count_; }
  [[nodiscard]] unsigned remainder_bits() const { return remainder_bits_; }
  [[nodiscard]] unsigned slots_per_line() const { return slots_per_line_; }
  // Lines with quotients, and those behind them.
  [[nodiscard]] std::uint32_t line_count() const {
    if (quotient_count_ == 0) return 0;
    const std::uint32_t lines = line_of(quotient_count_ + slots_per_line_ - 1);
    const std::uint32_t spill = 1 + lines / 8;
    return lines + (spill < spill_max ? spill : spill_max);
  }
  [[nodiscard]] std::size_t byte_count() const { return std::size_t{line_count()} * line_bytes; }
  [[nodiscard]] std::uint32_t line_of(std::uint32_t slot) const {
    return static_cast<std::uint32_t>((slot * reciprocals[slots_per_line_]) >> 32);
  }

  friend bool operator==(const CellShape&, const CellShape&) = default;

 private:
  static constexpr std::uint32_t spill_max = 6;
  // By the bits of a remainder. Look-ups make shapes, and a division would be a good part of them.
  static constexpr auto slot_counts = [] {
    std::array<std::uint8_t, word_bits + 1> all{};
    for (unsigned bits = 0; bits <= word_bits; ++bits) {
      const unsigned slots = (line_bit_count - line_offset_bits) / (bits + 2);
      all[bits] = static_cast<std::uint8_t>(slots < word_bits ? slots : word_bits);
    }
    return all;
  }();

  std::uint32_t quotient_count_ = 0;
  std::uint8_t remainder_bits_ = 0;
  std::uint8_t slots_per_line_ = 0;

  // slot * reciprocal >> 32 is slot / slots_per_line, for slots below 2^24.
  static constexpr auto reciprocals = [] {
    std::array<std::uint64_t, word_bits + 1> all{};
    for (unsigned slots = 1; slots <= word_bits; ++slots) all[slots] = (std::uint64_t{1} << 32) / slots + 1;
    return all;
  }();
};

// An entry that is looked up in the line of its quotient.
struct EntrySought {
  const std::uint64_t* line;
  std::uint64_t remainder;
  std::uint8_t remainder_bits;
  std::uint8_t slot;  // of its quotient, in the line
};

// Does not own the lines. The members before "writers" may be called while one writer changes the lines: then
// they end, and their answer may be wrong. The others are of one writer alone.
class CellLines {
 public:
  // `lines` has shape.byte_count() bytes; zeros are a cell without entries.
  CellLines(const CellShape& shape, std::uint64_t* lines) : shape_(shape), lines_(lines) {}

  [[nodiscard]] const CellShape& shape() const { return shape_; }

  // How often an entry is there, counted up to `max`, which is at least 1.
  [[nodiscard]] std::uint32_t count(std::uint32_t quotient, std::uint64_t remainder, std::uint32_t max) const;
  // The entry in the line of its quotient. The lines need not be there any more.
  [[nodiscard]] static EntrySought entry_sought(const CellShape& shape, const std::uint64_t* lines,
                                                std::uint32_t quotient, std::uint64_t remainder) {
    const std::uint32_t at = shape.line_of(quotient);
    return {.line = lines + std::size_t{at} * line_words,
            .remainder = remainder,
            .remainder_bits = static_cast<std::uint8_t>(shape.remainder_bits()),
            .slot = static_cast<std::uint8_t>(quotient - at * shape.slots_per_line())};
  }
  // Sets for each entry, at most 64, whether it is there. Reads the line of its quotient, and the next one.
  // Where these do not tell, which is rare, the entry's bit of the result is set.
  [[nodiscard]] static std::uint64_t find(std::span<const EntrySought> entries, bool* present);

  // --- writers --------------------------------------------------------------------------------------------

  // Nothing is changed if there is no room, or if the entry is there `copies_max` times.
  enum class Inserted : std::uint8_t { yes, no_room, enough_copies };
  [[nodiscard]] Inserted insert(std::uint32_t quotient, std::uint64_t remainder, std::uint32_t copies_max);
  // False if the entry is not there.
  bool remove(std::uint32_t quotient, std::uint64_t remainder);

  // Calls to(quotient, remainder) for each entry, in the order of both. False, after some of them, if the
  // bytes are those of no cell.
  template <class To>
  [[nodiscard]] bool each(To to) const;

 private:
  friend class CellBuilder;
  using Slot = std::uint32_t;
  static constexpr unsigned offset_max = 255;
  static constexpr unsigned occupied_at = line_offset_bits;

  [[nodiscard]] Line line(std::uint32_t at) const { return lines_ + std::size_t{at} * line_words; }
  [[nodiscard]] unsigned run_ends_at() const { return occupied_at + shape_.slots_per_line(); }
  [[nodiscard]] unsigned remainders_at() const { return occupied_at + 2 * shape_.slots_per_line(); }
  [[nodiscard]] unsigned offset(std::uint32_t at) const {
    return static_cast<unsigned>(load_word(line(at)) & offset_max);
  }
  void set_offset(std::uint32_t at, unsigned offset) {
    store_word(line(at), (load_word(line(at)) & ~std::uint64_t{offset_max}) | offset);
  }
  [[nodiscard]] std::uint64_t occupied(std::uint32_t at) const {
    return load_bits(line(at), occupied_at, shape_.slots_per_line());
  }
  [[nodiscard]] std::uint64_t run_ends(std::uint32_t at) const {
    return load_bits(line(at), run_ends_at(), shape_.slots_per_line());
  }
  [[nodiscard]] Slot slot_count() const { return shape_.line_count() * shape_.slots_per_line(); }

  struct Place {
    std::uint32_t line;
    unsigned slot;  // of the line
  };
  [[nodiscard]] Place place(Slot slot) const {
    const std::uint32_t at = shape_.line_of(slot);
    return {.line = at, .slot = slot - at * shape_.slots_per_line()};
  }
  [[nodiscard]] bool is_run_end(Slot slot) const {
    const Place at = place(slot);
    return load_bits(line(at.line), run_ends_at() + at.slot, 1) != 0;
  }
  void set_run_end(Slot slot, bool ends) {
    const Place at = place(slot);
    store_bits(line(at.line), run_ends_at() + at.slot, 1, ends ? 1 : 0);
  }
  [[nodiscard]] std::uint64_t remainder(Slot slot) const {
    const Place at = place(slot);
    return load_bits(line(at.line), remainders_at() + at.slot * shape_.remainder_bits(),
                     shape_.remainder_bits());
  }
  void set_remainder(Slot slot, std::uint64_t remainder) {
    const Place at = place(slot);
    store_bits(line(at.line), remainders_at() + at.slot * shape_.remainder_bits(), shape_.remainder_bits(),
               remainder);
  }
  [[nodiscard]] bool is_occupied(std::uint32_t quotient) const {
    const Place at = place(quotient);
    return load_bits(line(at.line), occupied_at + at.slot, 1) != 0;
  }
  void set_occupied(std::uint32_t quotient, bool occupied) {
    const Place at = place(quotient);
    store_bits(line(at.line), occupied_at + at.slot, 1, occupied ? 1 : 0);
  }

  // The functions below that end in `_by` are compiled twice, for the instructions of `Bits`.
  template <class Bits>
  [[nodiscard]] std::uint32_t count_by(std::uint32_t quotient, std::uint64_t remainder,
                                       std::uint32_t max) const;
  template <class Bits>
  [[nodiscard]] static std::uint64_t find_by(std::span<const EntrySought> entries, bool* present);
  [[nodiscard]] static std::uint64_t find_bmi2(std::span<const EntrySought> entries, bool* present);
  template <class Bits>
  [[nodiscard]] Inserted insert_by(std::uint32_t quotient, std::uint64_t remainder, std::uint32_t copies_max);
  template <class Bits>
  [[nodiscard]] bool remove_by(std::uint32_t quotient, std::uint64_t remainder);
  [[nodiscard]] std::uint32_t count_bmi2(std::uint32_t quotient, std::uint64_t remainder,
                                         std::uint32_t max) const;
  [[nodiscard]] Inserted insert_bmi2(std::uint32_t quotient, std::uint64_t remainder,
                                     std::uint32_t copies_max);
  bool remove_bmi2(std::uint32_t quotient, std::uint64_t remainder);
  // Does the same as those, where one line is not enough.
  template <class Bits>
  [[nodiscard]] std::uint32_t count_across_by(std::uint32_t quotient, std::uint64_t remainder,
                                              std::uint32_t max) const;
  template <class Bits>
  [[nodiscard]] Inserted insert_across_by(std::uint32_t quotient, std::uint64_t remainder,
                                          std::uint32_t copies_max);
  template <class Bits>
  [[nodiscard]] bool remove_across_by(std::uint32_t quotient, std::uint64_t remainder);
  // The slot behind the last run whose quotient is at most this one; less than quotient + 1 if that slot is
  // free. no_slot if the bytes contradict themselves.
  static constexpr Slot no_slot = ~Slot{0};
  template <class Bits>
  [[nodiscard]] Slot runs_end_by(std::uint32_t quotient) const;
  // The first free slot from `from` on; slot_count() if there is none.
  template <class Bits>
  [[nodiscard]] Slot first_free_by(Slot from) const;
  // The slot before the first one, from `run_end` on, that is free or begins a run at its quotient's slot.
  [[nodiscard]] Slot last_moved(std::uint32_t quotient, Slot run_end) const;
  // The first slot of the quotient's run, which is there; no_slot if the bytes contradict themselves.
  template <class Bits>
  [[nodiscard]] Slot run_begin_by(std::uint32_t quotient) const;
  // Moves the slots [from, to) up by one, or [from + 1, to + 1) down by one, with their run ends.
  void move_up(Slot from, Slot to);
  void move_down(Slot from, Slot to);

  CellShape shape_;
  std::uint64_t* lines_;
};

// Writes the entries of a cell in their order.
class CellBuilder {
 public:
  // The lines are zeros.
  explicit CellBuilder(CellLines to) : to_(to) {}
  // The entries come in the order of quotient and remainder. False if there is no room.
  [[nodiscard]] bool add(std::uint32_t quotient, std::uint64_t remainder);

 private:
  CellLines to_;
  CellLines::Place last_{};  // of the last entry
  CellLines::Place next_{};  // behind it
  CellLines::Place home_{};  // of its quotient
  std::uint32_t quotient_ = 0;
  bool any_ = false;
};

template <class To>
bool CellLines::each(To to) const {
  const unsigned slots = shape_.slots_per_line();
  const unsigned bits = shape_.remainder_bits();
  const std::uint32_t line_count = shape_.line_count();
  Place next{};  // behind the last run
  for (std::uint32_t at = 0; at < line_count; ++at) {
    for (std::uint64_t left = occupied(at); left != 0; left &= left - 1) {
      const auto home = static_cast<unsigned>(std::countr_zero(left));
      const Slot quotient = at * slots + home;
      if (quotient >= shape_.quotient_count()) return false;
      if (next.line < at) next = {.line = at, .slot = home};
      if (next.line == at && next.slot < home) next.slot = home;
      for (bool ends = false; !ends;) {
        if (next.line >= line_count) return false;
        to(quotient, load_bits(line(next.line), remainders_at() + next.slot * bits, bits));
        ends = load_bits(line(next.line), run_ends_at() + next.slot, 1) != 0;
        if (++next.slot == slots) next = {.line = next.line + 1, .slot = 0};
      }
    }
  }
  return true;
}

}  // namespace sepal::cuckoo
