// One line of a cell, for a quotient whose slot it has.
//
// Nearly all runs stand whole in the line of their quotient. So an operation reads the fields of that line
// once, and works on words. Where a run, or the slots that move, reach into another line, the answer is
// `elsewhere`, nothing is changed, and cell_lines.cpp does it slot by slot.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuckoo/cells/cell_lines.hpp"

namespace sepal::cuckoo {

// `Bits` is PlainBits or Bmi2Bits. All is inlined into functions that are compiled for these instructions.
template <class Bits>
class HomeLine {
 public:
  static constexpr unsigned elsewhere = ~0U;

  // `slot`: the quotient's, of the line.
  [[gnu::always_inline]] HomeLine(Line line, const CellShape& shape, unsigned slot)
      : line_(line),
        slots_(shape.slots_per_line()),
        remainder_bits_(shape.remainder_bits()),
        slot_(slot),
        offset_(static_cast<unsigned>(load_word(line) & low_bits(line_offset_bits))),
        occupied_(load_bits(line, line_offset_bits, slots_)),
        all_ends_(load_bits(line, line_offset_bits + slots_, slots_)),
        ends_(all_ends_ & ~low_bits(offset_)) {}

  [[nodiscard]] bool has_run() const { return (occupied_ >> slot_ & 1) != 0; }

  // How often the remainder is in the quotient's run; 0 if that is not there. The processor does not guess
  // whether there is a run, nor whether it has one entry or two: for it that is random, and it looks up
  // several items at once.
  [[nodiscard, gnu::always_inline]] unsigned count(std::uint64_t remainder) const {
    const unsigned end = runs_end(slot_);
    // Elsewhere; or there is no run, and those of earlier lines reach behind this one.
    if (end > slots_) [[unlikely]]
      return has_run() ? elsewhere : 0;
    // Where there is no run, it may lie behind the line.
    const unsigned begin = std::min(run_begin(end), slots_ - 1);
    const auto has_second = static_cast<unsigned>(begin + 1 < end);
    unsigned found = is_at(begin, remainder) + (is_at(begin + has_second, remainder) & has_second);
    for (unsigned slot = begin + 2; slot < end; ++slot) found += is_at(slot, remainder);
    return found & -static_cast<unsigned>(has_run());
  }

  enum class Changed : std::uint8_t { yes, no, elsewhere };

  // No change if there are `copies_max` copies already.
  [[nodiscard, gnu::always_inline]] Changed insert(std::uint64_t remainder, std::uint32_t copies_max) const {
    const unsigned end = runs_end(slot_);
    if (end >= slots_) return Changed::elsewhere;
    if (!has_run() && end <= slot_) {
      put(slot_, remainder, all_ends_ | std::uint64_t{1} << slot_);
      return Changed::yes;
    }
    unsigned at = end;
    if (has_run()) {
      const unsigned begin = run_begin(end);
      while (at > begin && remainder_at(at - 1) > remainder) --at;
      unsigned copies = 0;
      while (at - copies > begin && remainder_at(at - copies - 1) == remainder) ++copies;
      if (copies >= copies_max) return Changed::no;
    }
    // The first free slot: behind the runs whose quotients' slots are not behind it.
    unsigned free = end;
    for (unsigned next = runs_end(free); next > free; next = runs_end(free)) {
      if (next >= slots_) return Changed::elsewhere;
      free = next;
    }
    const std::uint64_t moved = low_bits(free) & ~low_bits(at);
    std::uint64_t ends = (all_ends_ & ~(moved | std::uint64_t{1} << free)) | (all_ends_ & moved) << 1;
    if (at == end) {
      if (has_run()) ends &= ~(std::uint64_t{1} << (at - 1));
      ends |= std::uint64_t{1} << at;
    }
    if (at != free) move_bits_up(line_, bit_of(at), bit_of(free), remainder_bits_);
    put(at, remainder, ends);
    return Changed::yes;
  }

  // No change if the remainder is not in the quotient's run, which is there.
  [[nodiscard, gnu::always_inline]] Changed remove(std::uint64_t remainder) const {
    const unsigned end = runs_end(slot_);
    if (end == elsewhere) return Changed::elsewhere;
    const unsigned begin = run_begin(end);
    unsigned at = begin;
    while (at < end && remainder_at(at) < remainder) ++at;
    if (at >= end || remainder_at(at) != remainder) return Changed::no;
    // The runs that stand behind their quotients' slots move down, up to the first that does not.
    unsigned moved_end = end;
    for (;;) {
      const unsigned next = runs_end(moved_end - 1);
      if (next == elsewhere) return Changed::elsewhere;
      if (next <= moved_end) break;
      moved_end = next;
    }
    const unsigned last = moved_end - 1;
    const std::uint64_t moved = low_bits(moved_end) & ~low_bits(at);
    std::uint64_t ends = (all_ends_ & ~moved) | ((all_ends_ & moved) >> 1 & moved);
    if (end - begin == 1) {
      store_bits(line_, line_offset_bits + slot_, 1, 0);
    } else if (at == end - 1) {
      ends |= std::uint64_t{1} << (at - 1);
    }
    if (at != last) move_bits_down(line_, bit_of(at), bit_of(last), remainder_bits_);
    store_bits(line_, bit_of(last), remainder_bits_, 0);
    store_bits(line_, line_offset_bits + slots_, slots_, ends);
    return Changed::yes;
  }

 private:
  // The slot behind the last run of the quotients up to that of `slot`; `elsewhere` if that run ends in
  // another line. At most `slot` + 1, if nothing stands at `slot` or behind it.
  [[nodiscard, gnu::always_inline]] unsigned runs_end(unsigned slot) const {
    const unsigned runs = Bits::count(occupied_ & low_bits(slot + 1));
    if (runs == 0) return offset_;
    const std::uint64_t end = Bits::nth(ends_, runs - 1);
    return end == 0 ? elsewhere : static_cast<unsigned>(std::countr_zero(end)) + 1;
  }
  // The first slot of the quotient's run, which ends before `end`.
  [[nodiscard]] unsigned run_begin(unsigned end) const {
    // The highest of them; 0 if there is none, so that the offset counts. `end` is at most 64.
    const std::uint64_t before = ends_ & low_bits(end - 1);
    const unsigned earlier_end = static_cast<unsigned>(std::bit_width(before << 1 | 1)) - 1;
    return std::max(std::max(earlier_end, offset_), slot_);
  }
  [[nodiscard]] unsigned bit_of(unsigned slot) const {
    return line_offset_bits + 2 * slots_ + slot * remainder_bits_;
  }
  [[nodiscard]] std::uint64_t remainder_at(unsigned slot) const {
    return load_bits(line_, bit_of(slot), remainder_bits_);
  }
  [[nodiscard]] unsigned is_at(unsigned slot, std::uint64_t remainder) const {
    return static_cast<unsigned>(remainder_at(slot) == remainder);
  }
  void put(unsigned slot, std::uint64_t remainder, std::uint64_t ends) const {
    store_bits(line_, bit_of(slot), remainder_bits_, remainder);
    store_bits(line_, line_offset_bits + slots_, slots_, ends);
    if (!has_run()) store_bits(line_, line_offset_bits + slot_, 1, 1);
  }

  Line line_;
  unsigned slots_;
  unsigned remainder_bits_;
  unsigned slot_;
  unsigned offset_;
  std::uint64_t occupied_;
  std::uint64_t all_ends_;
  std::uint64_t ends_;  // of the quotients of this line
};

}  // namespace sepal::cuckoo
