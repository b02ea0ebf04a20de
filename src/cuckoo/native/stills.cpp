#include "cuckoo/native/stills.hpp"

#include <sepal/base/memory_reserve.hpp>

#include <algorithm>
#include <utility>

#include "cuckoo/native/body.hpp"
#include "cuckoo/native/cell.hpp"

namespace sepal::cuckoo {

std::shared_ptr<const KeptRecord> KeptRecord::of(const Cell& cell) {
  const std::size_t byte_count = record_bytes_of(cell);
  Lines lines = make_lines(byte_count);
  if (lines == nullptr) return nullptr;
  encode_cell(cell, std::as_writable_bytes(std::span(lines.get(), byte_count / sizeof(std::uint64_t))));
  return std::make_shared<const KeptRecord>(std::move(lines), byte_count);
}

KeptRecord::KeptRecord(Lines lines, std::size_t byte_count)
    : lines_(std::move(lines)),
      byte_count_(byte_count),
      counted_(value::heap_footprint(value::heap_line_bytes(byte_count))) {}

std::span<const std::byte> KeptRecord::bytes() const {
  return std::as_bytes(std::span(lines_.get(), byte_count_ / sizeof(std::uint64_t)));
}

bool Stills::need(const Cell& cell) const {
  return count_.load(std::memory_order_acquire) != 0 && cell.freeze_number() < number();
}

std::uint64_t Stills::bytes_to_keep(const Cell& cell) const {
  return need(cell) ? value::heap_footprint(value::heap_line_bytes(record_bytes_of(cell))) : 0;
}

bool Stills::are_wanting(const Cell& cell) {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(copies_, [&](const StillCells* copy) { return copy->wants(cell); });
}

bool Stills::keep(Cell& cell) {
  if (!need(cell)) return true;
  bool kept = true;
  // Small pieces come from the reserve. If only some copies get the record, the cell stays as it is, and they
  // have a record that is as good as the one they take later.
  const bool ended = memory_reserve::suffices_for([&] {
    if (!are_wanting(cell)) return;
    const auto record = KeptRecord::of(cell);
    kept = record != nullptr;
    if (!kept) return;
    const MutexLock lock(mutex_);
    for (StillCells* const copy : copies_)
      if (copy->wants(cell)) copy->keep(cell, record);
  });
  if (!ended || !kept) return false;
  cell.set_freeze_number(number());
  return true;
}

std::uint64_t Stills::add(StillCells& copy) {
  const MutexLock lock(mutex_);
  copies_.push_back(&copy);
  count_.fetch_add(1, std::memory_order_release);
  return number_.fetch_add(1, std::memory_order_relaxed) + 1;
}

void Stills::remove(StillCells& copy) {
  const MutexLock lock(mutex_);
  std::erase(copies_, &copy);
  count_.fetch_sub(1, std::memory_order_release);
}

}  // namespace sepal::cuckoo
