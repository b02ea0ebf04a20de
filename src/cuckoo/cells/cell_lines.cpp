#include "cuckoo/cells/cell_lines.hpp"

#include <algorithm>

#include "cuckoo/cells/home_line.hpp"

namespace sepal::cuckoo {

#if defined(__x86_64__)
const bool has_bmi2 = Bmi2Bits::available();
#endif

// Rank: how many runs of this line's quotients end up to there. Select: the place of that many run ends,
// counted from where the runs of earlier lines end.
template <class Bits>
[[gnu::always_inline]] inline CellLines::Slot CellLines::runs_end_by(std::uint32_t quotient) const {
  const Place home = place(quotient);
  const unsigned slots = shape_.slots_per_line();
  const std::uint32_t line_count = shape_.line_count();
  const Slot earlier_end = home.line * slots + offset(home.line);
  unsigned rank = Bits::count(occupied(home.line) & low_bits(home.slot + 1));
  if (rank == 0) return earlier_end;
  const Place first = place(earlier_end);
  std::uint64_t skip = low_bits(first.slot);
  for (std::uint32_t at = first.line; at < line_count; ++at, skip = 0) {
    const std::uint64_t ends = run_ends(at) & ~skip;
    if (const std::uint64_t end = Bits::nth(ends, rank - 1); end != 0)
      return at * slots + static_cast<unsigned>(std::countr_zero(end)) + 1;
    rank -= Bits::count(ends);
  }
  return no_slot;
}

template <class Bits>
[[gnu::always_inline]] inline CellLines::Slot CellLines::first_free_by(Slot from) const {
  const Slot slots = slot_count();
  while (from < slots) {
    const Slot end = runs_end_by<Bits>(from);
    if (end <= from) return from;
    from = end;
  }
  return slots;
}

template <class Bits>
[[gnu::always_inline]] inline CellLines::Slot CellLines::run_begin_by(std::uint32_t quotient) const {
  const Place home = place(quotient);
  const Slot before = home.slot == 0 ? home.line * shape_.slots_per_line() + offset(home.line)
                                     : runs_end_by<Bits>(quotient - 1);
  return std::max(before, quotient);
}

// --- look-ups ---------------------------------------------------------------------------------------------

template <class Bits>
[[gnu::always_inline]] inline std::uint32_t CellLines::count_across_by(std::uint32_t quotient,
                                                                       std::uint64_t remainder,
                                                                       std::uint32_t max) const {
  const Slot end = runs_end_by<Bits>(quotient);
  if (end > slot_count()) return 0;
  std::uint32_t found = 0;
  for (Slot slot = end; slot > quotient;) {
    --slot;
    const std::uint64_t there = this->remainder(slot);
    if (there < remainder) break;
    if (there == remainder && ++found == max) break;
    if (slot == quotient || is_run_end(slot - 1)) break;
  }
  return found;
}

template <class Bits>
[[gnu::always_inline]] inline std::uint32_t CellLines::count_by(std::uint32_t quotient,
                                                                std::uint64_t remainder,
                                                                std::uint32_t max) const {
  const Place at = place(quotient);
  const HomeLine<Bits> home(line(at.line), shape_.remainder_bits(), at.slot);
  unsigned found = home.count(remainder);
  if (found == HomeLine<Bits>::elsewhere) found = home.count_with(line(at.line + 1), remainder);
  if (found == HomeLine<Bits>::elsewhere) return count_across_by<Bits>(quotient, remainder, max);
  return std::min(found, max);
}

// In a full cell one run in six ends in the next line. These lines are asked for together, and read last.
template <class Bits>
[[gnu::always_inline]] inline std::uint64_t CellLines::find_by(std::span<const EntrySought> entries,
                                                               bool* present) {
  std::uint64_t next = 0;
  for (std::size_t at = 0; at < entries.size(); ++at) {
    const unsigned found = HomeLine<Bits>(entries[at]).count(entries[at].remainder);
    present[at] = found != 0;
    next |= std::uint64_t{found == HomeLine<Bits>::elsewhere ? 1U : 0U} << at;
  }
  for (std::uint64_t left = next; left != 0; left &= left - 1)
    __builtin_prefetch(entries[Bits::trailing(left)].line + line_words);
  std::uint64_t elsewhere = 0;
  for (std::uint64_t left = next; left != 0; left &= left - 1) {
    const unsigned at = Bits::trailing(left);
    const EntrySought& entry = entries[at];
    const unsigned found =
        HomeLine<Bits>(entry).count_with(const_cast<Line>(entry.line) + line_words, entry.remainder);
    present[at] = found != 0;
    if (found == HomeLine<Bits>::elsewhere) elsewhere |= std::uint64_t{1} << at;
  }
  return elsewhere;
}

// --- adds -------------------------------------------------------------------------------------------------

void CellLines::move_up(Slot from, Slot to) {
  const unsigned slots = shape_.slots_per_line();
  const unsigned bits = shape_.remainder_bits();
  const Place first = place(from);
  const Place last = place(to);
  for (std::uint32_t at = last.line;; --at) {
    const unsigned low = at == first.line ? first.slot : 0;
    const unsigned high = at == last.line ? last.slot : slots - 1;
    if (low != high) {
      move_bits_up(line(at), remainders_at() + low * bits, remainders_at() + high * bits, bits);
      move_bits_up(line(at), run_ends_at() + low, run_ends_at() + high, 1);
    }
    if (at == first.line) return;
    set_remainder(at * slots, remainder(at * slots - 1));
    set_run_end(at * slots, is_run_end(at * slots - 1));
  }
}

template <class Bits>
[[gnu::always_inline]] inline CellLines::Inserted CellLines::insert_across_by(std::uint32_t quotient,
                                                                              std::uint64_t remainder,
                                                                              std::uint32_t copies_max) {
  const Slot end = runs_end_by<Bits>(quotient);
  if (end > slot_count()) return Inserted::no_room;
  const bool has_run = is_occupied(quotient);
  Slot slot = end;
  if (has_run) {
    const Slot begin = run_begin_by<Bits>(quotient);
    while (slot > begin && this->remainder(slot - 1) > remainder) --slot;
    std::uint32_t copies = 0;
    while (slot - copies > begin && this->remainder(slot - copies - 1) == remainder) ++copies;
    if (copies >= copies_max) return Inserted::enough_copies;
  }
  const Slot free = first_free_by<Bits>(end);
  if (free >= slot_count()) return Inserted::no_room;
  const std::uint32_t home = shape_.line_of(quotient);
  const std::uint32_t last = shape_.line_of(free);
  for (std::uint32_t at = home + 1; at <= last; ++at)
    if (offset(at) == offset_max) return Inserted::no_room;
  const bool is_last = slot == end;
  move_up(slot, free);
  set_remainder(slot, remainder);
  set_run_end(slot, is_last);
  if (has_run && is_last) set_run_end(slot - 1, false);
  if (!has_run) set_occupied(quotient, true);
  for (std::uint32_t at = home + 1; at <= last; ++at) set_offset(at, offset(at) + 1);
  return Inserted::yes;
}

template <class Bits>
[[gnu::always_inline]] inline CellLines::Inserted CellLines::insert_by(std::uint32_t quotient,
                                                                       std::uint64_t remainder,
                                                                       std::uint32_t copies_max) {
  const Place at = place(quotient);
  switch (HomeLine<Bits>(line(at.line), shape_.remainder_bits(), at.slot).insert(remainder, copies_max)) {
    case HomeLine<Bits>::Changed::yes: return Inserted::yes;
    case HomeLine<Bits>::Changed::no: return Inserted::enough_copies;
    default: return insert_across_by<Bits>(quotient, remainder, copies_max);
  }
}

// --- removals ---------------------------------------------------------------------------------------------

void CellLines::move_down(Slot from, Slot to) {
  const unsigned slots = shape_.slots_per_line();
  const unsigned bits = shape_.remainder_bits();
  const Place first = place(from);
  const Place last = place(to);
  for (std::uint32_t at = first.line; at <= last.line; ++at) {
    const unsigned low = at == first.line ? first.slot : 0;
    const unsigned high = at == last.line ? last.slot : slots - 1;
    if (low != high) {
      move_bits_down(line(at), remainders_at() + low * bits, remainders_at() + high * bits, bits);
      move_bits_down(line(at), run_ends_at() + low, run_ends_at() + high, 1);
    }
    const bool ends = at == last.line;
    set_remainder(at * slots + high, ends ? 0 : remainder((at + 1) * slots));
    set_run_end(at * slots + high, !ends && is_run_end((at + 1) * slots));
  }
}

// Walks the runs behind the one that ends at `run_end` - 1, with one cursor for the quotients and one for the
// run ends, as long as each begins where the run before it ends.
CellLines::Slot CellLines::last_moved(std::uint32_t quotient, Slot run_end) const {
  const unsigned slots = shape_.slots_per_line();
  const std::uint32_t line_count = shape_.line_count();
  Slot end = run_end;
  Place next_quotient = place(quotient);
  std::uint64_t quotients = occupied(next_quotient.line) & ~low_bits(next_quotient.slot + 1);
  Place next_end = place(run_end - 1);
  std::uint64_t ends = run_ends(next_end.line) & ~low_bits(next_end.slot + 1);
  for (;;) {
    while (quotients == 0) {
      if (++next_quotient.line >= line_count || next_quotient.line * slots >= end) return end - 1;
      quotients = occupied(next_quotient.line);
    }
    const Slot home = next_quotient.line * slots + static_cast<unsigned>(std::countr_zero(quotients));
    if (home >= end) return end - 1;
    quotients &= quotients - 1;
    while (ends == 0) {
      if (++next_end.line >= line_count) return end - 1;
      ends = run_ends(next_end.line);
    }
    end = next_end.line * slots + static_cast<unsigned>(std::countr_zero(ends)) + 1;
    ends &= ends - 1;
  }
}

template <class Bits>
[[gnu::always_inline]] inline bool CellLines::remove_across_by(std::uint32_t quotient,
                                                               std::uint64_t remainder) {
  const Slot end = runs_end_by<Bits>(quotient);
  if (end > slot_count()) return false;
  const Slot begin = run_begin_by<Bits>(quotient);
  Slot slot = begin;
  while (slot < end && this->remainder(slot) < remainder) ++slot;
  if (slot >= end || this->remainder(slot) != remainder) return false;
  const Slot last = last_moved(quotient, end);
  if (end - begin == 1) {
    set_occupied(quotient, false);
  } else if (slot == end - 1) {
    set_run_end(slot - 1, true);
  }
  move_down(slot, last);
  const std::uint32_t last_line = shape_.line_of(last);
  for (std::uint32_t at = shape_.line_of(quotient) + 1; at <= last_line; ++at) set_offset(at, offset(at) - 1);
  return true;
}

template <class Bits>
[[gnu::always_inline]] inline bool CellLines::remove_by(std::uint32_t quotient, std::uint64_t remainder) {
  const Place at = place(quotient);
  const HomeLine<Bits> home(line(at.line), shape_.remainder_bits(), at.slot);
  if (!home.has_run()) return false;
  switch (home.remove(remainder)) {
    case HomeLine<Bits>::Changed::yes: return true;
    case HomeLine<Bits>::Changed::no: return false;
    default: return remove_across_by<Bits>(quotient, remainder);
  }
}

// --- the instructions of this processor -------------------------------------------------------------------

#if defined(__x86_64__)
SEPAL_BMI2 std::uint32_t CellLines::count_bmi2(std::uint32_t quotient, std::uint64_t remainder,
                                               std::uint32_t max) const {
  return count_by<Bmi2Bits>(quotient, remainder, max);
}
SEPAL_BMI2 CellLines::Inserted CellLines::insert_bmi2(std::uint32_t quotient, std::uint64_t remainder,
                                                      std::uint32_t copies_max) {
  return insert_by<Bmi2Bits>(quotient, remainder, copies_max);
}
SEPAL_BMI2 bool CellLines::remove_bmi2(std::uint32_t quotient, std::uint64_t remainder) {
  return remove_by<Bmi2Bits>(quotient, remainder);
}
SEPAL_BMI2 std::uint64_t CellLines::find_bmi2(std::span<const EntrySought> entries, bool* present) {
  return find_by<Bmi2Bits>(entries, present);
}
#endif

std::uint64_t CellLines::find(std::span<const EntrySought> entries, bool* present) {
#if defined(__x86_64__)
  if (has_bmi2) return find_bmi2(entries, present);
#endif
  return find_by<PlainBits>(entries, present);
}

std::uint32_t CellLines::count(std::uint32_t quotient, std::uint64_t remainder, std::uint32_t max) const {
#if defined(__x86_64__)
  if (has_bmi2) return count_bmi2(quotient, remainder, max);
#endif
  return count_by<PlainBits>(quotient, remainder, max);
}

CellLines::Inserted CellLines::insert(std::uint32_t quotient, std::uint64_t remainder,
                                      std::uint32_t copies_max) {
#if defined(__x86_64__)
  if (has_bmi2) return insert_bmi2(quotient, remainder, copies_max);
#endif
  return insert_by<PlainBits>(quotient, remainder, copies_max);
}

bool CellLines::remove(std::uint32_t quotient, std::uint64_t remainder) {
#if defined(__x86_64__)
  if (has_bmi2) return remove_bmi2(quotient, remainder);
#endif
  return remove_by<PlainBits>(quotient, remainder);
}

bool CellBuilder::add(std::uint32_t quotient, std::uint64_t remainder) {
  const CellShape& shape = to_.shape();
  const unsigned slots = shape.slots_per_line();
  const bool same_run = any_ && quotient == quotient_;
  if (!same_run) home_ = to_.place(quotient);
  const bool is_behind = next_.line > home_.line || (next_.line == home_.line && next_.slot > home_.slot);
  const CellLines::Place at = is_behind ? next_ : home_;
  if (at.line >= shape.line_count()) return false;
  for (std::uint32_t line = home_.line + 1; line <= at.line; ++line) {
    const std::uint32_t taken = (at.line - line) * slots + at.slot + 1;
    if (taken > CellLines::offset_max) return false;
    to_.set_offset(line, taken);
  }
  if (same_run) store_bits(to_.line(last_.line), to_.run_ends_at() + last_.slot, 1, 0);
  std::uint64_t* const line = to_.line(at.line);
  const unsigned bits = shape.remainder_bits();
  store_bits(line, to_.remainders_at() + at.slot * bits, bits, remainder);
  store_bits(line, to_.run_ends_at() + at.slot, 1, 1);
  if (!same_run) store_bits(to_.line(home_.line), CellLines::occupied_at + home_.slot, 1, 1);
  last_ = at;
  next_ = at.slot + 1 == slots ? CellLines::Place{.line = at.line + 1, .slot = 0}
                               : CellLines::Place{.line = at.line, .slot = at.slot + 1};
  quotient_ = quotient;
  any_ = true;
  return true;
}

}  // namespace sepal::cuckoo
