// One line of a cell, for a quotient whose slot it has.
//
// Nearly all runs stand whole in the line of their quotient. So an operation reads the fields of that line
// once, and works on words. Where a run, or the slots that move, reach into another line, the answer is
// `elsewhere`, and nothing is changed. A look-up takes the next line to it then, which is enough for nearly
// all others. What is left, cell_lines.cpp does slot by slot.
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
  [[gnu::always_inline]] HomeLine(Line line, unsigned remainder_bits, unsigned slot)
      : line_(line),
        slots_(CellShape::slots_of_line(remainder_bits)),
        remainder_bits_(remainder_bits),
        slot_(slot),
        offset_(static_cast<unsigned>(load_word(line) & low_bits(line_offset_bits))),
        occupied_(Bits::lowest(load_from(line, line_offset_bits), slots_)),
        all_ends_(Bits::lowest(load_from(line, line_offset_bits + slots_), slots_)),
        ends_(all_ends_ ^ Bits::lowest(all_ends_, offset_)) {}

  [[gnu::always_inline]] explicit HomeLine(const EntrySought& entry)
      : HomeLine(const_cast<Line>(entry.line), entry.remainder_bits, entry.slot) {}

  [[nodiscard]] bool has_run() const { return (occupied_ >> slot_ & 1) != 0; }

  // How often the remainder is in the quotient's run; 0 if that is not there. For the processor it is random
  // whether there is a run, where it is, and how long. So none of this is a branch.
  [[nodiscard, gnu::always_inline]] unsigned count(std::uint64_t remainder) const {
    const std::uint64_t end = Bits::nth(ends_, (run_count() - 1) % word_bits);
    const auto is_run = static_cast<unsigned>(occupied_ >> slot_ & 1);
    const auto is_here = static_cast<unsigned>(end != 0);
    const unsigned begin = begin_behind(Bits::width(ends_ & (end - 1)));
    const unsigned slots = (Bits::trailing(end) + 1 - begin) & -(is_run & is_here);
    return count_in(line_, begin, slots, remainder) | -(is_run & (is_here ^ 1));
  }

  // The same for a run that is there, and ends in the next line; else `elsewhere`.
  [[nodiscard, gnu::always_inline]] unsigned count_with(Line next, std::uint64_t remainder) const {
    const std::uint64_t all = Bits::lowest(load_from(next, line_offset_bits + slots_), slots_);
    const std::uint64_t ends = all ^ Bits::lowest(all, std::max(offset_, slots_) - slots_);
    const std::uint64_t end = Bits::nth(ends, (run_count() - 1 - Bits::count(ends_)) % word_bits);
    if (end == 0) return elsewhere;
    // Slots of both lines, as if they were one.
    const std::uint64_t before = ends & (end - 1);
    const unsigned begin = begin_behind(before != 0 ? slots_ + Bits::width(before) : Bits::width(ends_));
    const unsigned here = slots_ - std::min(begin, slots_);
    const unsigned there = std::max(begin, slots_) - slots_;
    return count_in(line_, begin, here, remainder) +
           count_in(next, there, Bits::trailing(end) + 1 - there, remainder);
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
  // Quotients of this line that have runs, up to this one.
  [[nodiscard, gnu::always_inline]] unsigned run_count() const {
    return Bits::count(Bits::lowest(occupied_, slot_ + 1));
  }
  [[nodiscard, gnu::always_inline]] unsigned begin_behind(unsigned run_end) const {
    return std::max(std::max(run_end, offset_), slot_);
  }
  // How often the remainder is in so many slots of a line. The remainders of a word are compared at once, and
  // those behind the last do not count. Only more than a word takes a second step. The number is below 0 if a
  // writer moves the bits meanwhile.
  [[nodiscard, gnu::always_inline]] unsigned count_in(const std::uint64_t* line, unsigned begin,
                                                      unsigned slot_count, std::uint64_t remainder) const {
    const WordOfFields& word = words_of_fields[remainder_bits_];
    const std::uint64_t remainders = remainder * word.lowest;
    auto left = static_cast<std::int32_t>(slot_count * remainder_bits_);
    unsigned found = 0;
    for (unsigned at = bit_of(begin);; at += static_cast<unsigned>(word.bits), left -= word.bits) {
      // A field that is 0 is the remainder. To add the rest sets the highest bit of all others, and no sum
      // reaches the next field.
      const std::uint64_t fields = load_from(line, at) ^ remainders;
      const std::uint64_t equal = ~(((fields & word.rest) + word.rest) | fields) & word.highest;
      found += Bits::count(Bits::lowest(equal, static_cast<unsigned>(std::min(left, word.bits))));
      if (left <= word.bits) [[likely]]
        return found;
    }
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
