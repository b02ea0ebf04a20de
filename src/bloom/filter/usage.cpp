// A worker is the only writer of its slot, so a plain load and store in place of an atomic addition loses
// nothing. A reader may see a slot between two of these stores; its sums are approximate.
#include <sepal/bloom/filter/usage.hpp>

#include <algorithm>

namespace sepal::bloom {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::nanoseconds;

constexpr std::chrono::seconds piece_duration{10};
// A cell of a piece counts items in these lower bits. The upper bits have the piece's number.
constexpr int piece_items_bits = 40;
constexpr std::int64_t whole_pieces = 6;  // a minute, and the piece that has begun

std::uint64_t nanoseconds_of(SteadyTime time) {
  return static_cast<std::uint64_t>(duration_cast<nanoseconds>(time.time_since_epoch()).count());
}

// A cell has room for the lower bits of the number only. They begin anew after years of uptime.
std::uint64_t piece_of(SteadyTime time) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << (64 - piece_items_bits)) - 1;
  return static_cast<std::uint64_t>(time.time_since_epoch() / piece_duration) & mask;
}

// How many pieces ago; below 0 for a piece that a worker has begun after `current` was read. The shift to the
// left drops what does not belong to a number, and the shift back keeps the sign.
std::int64_t age_of(std::uint64_t piece, std::uint64_t current) {
  return static_cast<std::int64_t>((current - piece) << piece_items_bits) >> piece_items_bits;
}

}  // namespace

void UsageSlot::count_added(std::uint64_t items, SteadyTime now) {
  if (items == 0) return;
  static_assert(whole_pieces + 1 < piece_count, "the piece that a worker begins anew is of no minute's sum");
  const std::uint64_t piece = piece_of(now);
  Cell& cell = pieces_[piece % piece_count];
  const std::uint64_t held = cell.load(std::memory_order_relaxed);
  // The cell may still hold the items of an earlier minute.
  const bool is_current = held >> piece_items_bits == piece;
  cell.store((is_current ? held : piece << piece_items_bits) + items, std::memory_order_relaxed);
  add(items_added_, items);
  last_added_.store(nanoseconds_of(now), std::memory_order_relaxed);
  // Only this worker writes, so the look and the store need not be one step.
  if (first_added_.load(std::memory_order_relaxed) == 0)
    first_added_.store(nanoseconds_of(now), std::memory_order_relaxed);
}

Usage::Sums Usage::sums(SteadyTime now) const {
  constexpr std::uint64_t items_mask = (std::uint64_t{1} << piece_items_bits) - 1;
  const std::uint64_t current = piece_of(now);
  Sums sums;
  std::uint64_t added = 0;
  std::uint64_t first = nanoseconds_of(now);
  std::uint64_t last = 0;
  for (const UsageSlot& slot : slots_) {
    sums.asked += slot.asked_.load(std::memory_order_relaxed);
    sums.found += slot.found_.load(std::memory_order_relaxed);
    sums.added += slot.items_added_.load(std::memory_order_relaxed);
    const std::uint64_t slot_first = slot.first_added_.load(std::memory_order_relaxed);
    if (slot_first != 0) first = std::min(first, slot_first);
    last = std::max(last, slot.last_added_.load(std::memory_order_relaxed));
    for (const auto& cell : slot.pieces_) {
      const std::uint64_t held = cell.load(std::memory_order_relaxed);
      const std::int64_t age = age_of(held >> piece_items_bits, current);
      if (age >= -1 && age <= whole_pieces) added += held & items_mask;
    }
  }
  if (last == 0) return sums;
  sums.last_added = SteadyTime(nanoseconds(last));
  const auto since_piece = duration<double>(now.time_since_epoch() % piece_duration);
  const double window = (since_piece + whole_pieces * duration<double>(piece_duration)).count();
  const double since_first = duration<double>(nanoseconds(nanoseconds_of(now) - first)).count();
  // In the first second a rate says nothing yet: the second is taken as whole.
  sums.added_per_second = static_cast<double>(added) / std::max(1.0, std::min(window, since_first));
  return sums;
}

}  // namespace sepal::bloom
