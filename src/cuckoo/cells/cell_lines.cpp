#include "cuckoo/cells/cell_lines.hpp"

#include <algorithm>

namespace sepal::cuckoo {

// Rank: how many runs of this line's quotients end up to there. Select: the place of that many run ends,
// counted from where the runs of earlier lines end.
#if defined(__x86_64__)
const bool has_bmi2 = Bmi2Bits::available();
#endif

template <class Bits>
[[gnu::always_inline]] inline CellLines::Slot CellLines::runs_end_by(std::uint32_t quotient) const {
  const Place home = place(quotient);
  const unsigned slots = shape_.slots_per_line();
  const Slot earlier_end = home.line * slots + offset(home.line);
  unsigned rank = Bits::count(occupied(home.line) & low_bits(home.slot + 1));
  if (rank == 0) return earlier_end;
  const Place first = place(earlier_end);
  std::uint64_t skip = low_bits(first.slot);
  for (std::uint32_t at = first.line; at < line_count_; ++at, skip = 0) {
    const std::uint64_t ends = run_ends(at) & ~skip;
    const unsigned here = Bits::count(ends);
    if (rank <= here) return at * slots + Bits::select(ends, rank - 1) + 1;
    rank -= here;
  }
  return no_slot;
}

#if defined(__x86_64__)
__attribute__((target("bmi2,popcnt"))) CellLines::Slot CellLines::runs_end_bmi2(
    std::uint32_t quotient) const {
  return runs_end_by<Bmi2Bits>(quotient);
}
#endif

std::optional<CellLines::Slot> CellLines::runs_end(std::uint32_t quotient) const {
#if defined(__x86_64__)
  const Slot end = has_bmi2 ? runs_end_bmi2(quotient) : runs_end_by<PlainBits>(quotient);
#else
  const Slot end = runs_end_by<PlainBits>(quotient);
#endif
  return end == no_slot ? std::nullopt : std::optional<Slot>(end);
}

CellLines::Slot CellLines::first_free(Slot from) const {
  while (from < slot_count()) {
    const auto end = runs_end(from);
    if (!end) return slot_count();
    if (*end <= from) return from;
    from = *end;
  }
  return slot_count();
}

std::optional<CellLines::Run> CellLines::run_of(std::uint32_t quotient) const {
  const auto end = runs_end(quotient);
  if (!end || *end <= quotient) return std::nullopt;
  const Place home = place(quotient);
  const auto before = home.slot == 0
                          ? std::optional<Slot>(home.line * shape_.slots_per_line() + offset(home.line))
                          : runs_end(quotient - 1);
  if (!before) return std::nullopt;
  return Run{.begin = std::max(*before, quotient), .end = *end};
}

std::uint32_t CellLines::count(std::uint32_t quotient, std::uint64_t remainder, std::uint32_t max) const {
  if (!is_occupied(quotient)) return 0;
  const auto end = runs_end(quotient);
  if (!end || *end > slot_count()) return 0;
  std::uint32_t found = 0;
  for (Slot slot = *end; slot > quotient;) {
    --slot;
    const std::uint64_t there = this->remainder(slot);
    if (there < remainder) break;
    if (there == remainder && ++found == max) break;
    if (slot == quotient || is_run_end(slot - 1)) break;
  }
  return found;
}

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

bool CellLines::insert(std::uint32_t quotient, std::uint64_t remainder) {
  const bool has_run = is_occupied(quotient);
  const auto end = runs_end(quotient);
  if (!end) return false;
  if (!has_run && *end <= quotient) {
    set_remainder(quotient, remainder);
    set_run_end(quotient, true);
    set_occupied(quotient, true);
    return true;
  }
  const Slot free = first_free(*end);
  if (free >= slot_count()) return false;
  const std::uint32_t home = shape_.line_of(quotient);
  const std::uint32_t last = shape_.line_of(free);
  for (std::uint32_t at = home + 1; at <= last; ++at)
    if (offset(at) == offset_max) return false;
  Slot slot = *end;
  if (has_run) {
    const auto run = run_of(quotient);
    if (!run) return false;
    while (slot > run->begin && this->remainder(slot - 1) > remainder) --slot;
  }
  const bool is_last = slot == *end;
  move_up(slot, free);
  set_remainder(slot, remainder);
  set_run_end(slot, is_last);
  if (has_run && is_last) set_run_end(slot - 1, false);
  if (!has_run) set_occupied(quotient, true);
  for (std::uint32_t at = home + 1; at <= last; ++at) set_offset(at, offset(at) + 1);
  return true;
}

// Walks the runs behind the one that ends at `run_end` - 1, with one cursor for the quotients and one for the
// run ends, as long as each begins where the run before it ends.
CellLines::Slot CellLines::last_moved(std::uint32_t quotient, Slot run_end) const {
  const unsigned slots = shape_.slots_per_line();
  Slot end = run_end;
  Place next_quotient = place(quotient);
  std::uint64_t quotients = occupied(next_quotient.line) & ~low_bits(next_quotient.slot + 1);
  Place next_end = place(run_end - 1);
  std::uint64_t ends = run_ends(next_end.line) & ~low_bits(next_end.slot + 1);
  for (;;) {
    while (quotients == 0) {
      if (++next_quotient.line >= line_count_ || next_quotient.line * slots >= end) return end - 1;
      quotients = occupied(next_quotient.line);
    }
    const Slot home = next_quotient.line * slots + static_cast<unsigned>(std::countr_zero(quotients));
    if (home >= end) return end - 1;
    quotients &= quotients - 1;
    while (ends == 0) {
      if (++next_end.line >= line_count_) return end - 1;
      ends = run_ends(next_end.line);
    }
    end = next_end.line * slots + static_cast<unsigned>(std::countr_zero(ends)) + 1;
    ends &= ends - 1;
  }
}

bool CellLines::remove(std::uint32_t quotient, std::uint64_t remainder) {
  if (!is_occupied(quotient)) return false;
  const auto run = run_of(quotient);
  if (!run) return false;
  Slot slot = run->begin;
  while (slot < run->end && this->remainder(slot) < remainder) ++slot;
  if (slot == run->end || this->remainder(slot) != remainder) return false;
  const Slot last = last_moved(quotient, run->end);
  if (run->end - run->begin == 1) {
    set_occupied(quotient, false);
  } else if (slot == run->end - 1) {
    set_run_end(slot - 1, true);
  }
  move_down(slot, last);
  const std::uint32_t last_line = shape_.line_of(last);
  for (std::uint32_t at = shape_.line_of(quotient) + 1; at <= last_line; ++at) set_offset(at, offset(at) - 1);
  return true;
}

bool CellBuilder::add(std::uint32_t quotient, std::uint64_t remainder) {
  const bool same_run = any_ && quotient == quotient_;
  const CellLines::Slot slot = std::max(next_, quotient);
  if (slot >= to_.slot_count()) return false;
  const unsigned slots = to_.shape().slots_per_line();
  const std::uint32_t last = to_.shape().line_of(slot);
  for (std::uint32_t at = to_.shape().line_of(quotient) + 1; at <= last; ++at) {
    const std::uint32_t taken = slot - at * slots + 1;
    if (taken > CellLines::offset_max) return false;
    to_.set_offset(at, taken);
  }
  if (same_run) to_.set_run_end(slot - 1, false);
  to_.set_remainder(slot, remainder);
  to_.set_run_end(slot, true);
  to_.set_occupied(quotient, true);
  next_ = slot + 1;
  quotient_ = quotient;
  any_ = true;
  return true;
}

}  // namespace sepal::cuckoo
