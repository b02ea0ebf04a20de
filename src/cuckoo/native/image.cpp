// How a filter becomes bytes while it changes (stills.hpp), and bytes a filter.
#include <sepal/base/assert.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/cuckoo/native/filter.hpp>

#include <algorithm>
#include <utility>

#include "cuckoo/native/body.hpp"
#include "cuckoo/native/frozen_cells.hpp"

namespace sepal::cuckoo {

FrozenCells::FrozenCells(std::shared_ptr<Stills> stills) : stills_(std::move(stills)) {
  stills_->add(*this);
}

FrozenCells::~FrozenCells() {
  stills_->remove(*this);
}

void FrozenCells::add(Cell& cell, std::uint32_t layer) {
  const std::size_t bytes = record_bytes_of(cell);
  cells_.push_back({.cell = &cell, .layer = layer, .begin = byte_count_, .byte_count = bytes});
  byte_count_ += bytes;
  item_count_ += cell.item_count();
}

void FrozenCells::keep(const Cell& cell) {
  const auto at = std::ranges::find(cells_, &cell, &Frozen::cell);
  if (at == cells_.end() || at->had) return;
  at->kept.resize(at->byte_count);
  encode_cell(cell, at->layer, at->kept);
  at->had = true;
}

void FrozenCells::copy(std::uint64_t offset, std::span<std::byte> to) {
  auto next = std::ranges::upper_bound(cells_, offset, {}, &Frozen::begin);
  SEPAL_ASSERT(next != cells_.begin() || to.empty(), "a filter without cells is copied");
  for (; !to.empty(); ++next) {
    Frozen& frozen = *std::prev(next);
    const std::span<const std::byte> record = record_of(frozen);
    const auto from = record.subspan(static_cast<std::size_t>(offset - frozen.begin));
    const std::size_t count = std::min(from.size(), to.size());
    std::ranges::copy(from.first(count), to.begin());
    to = to.subspan(count);
    offset += count;
  }
}

// A record is fetched once, and stays until the next one is asked for: a cell may be read in several pieces.
std::span<const std::byte> FrozenCells::record_of(Frozen& frozen) {
  if (current_ == &frozen) return record_;
  current_ = &frozen;
  const CellGuard guard(*frozen.cell);
  const MutexLock lock(stills_->mutex());
  if (frozen.had) {
    SEPAL_ASSERT(!frozen.kept.empty(), "a filter is copied in another order than that of its bytes");
    record_ = std::exchange(frozen.kept, {});
    return record_;
  }
  record_.resize(frozen.byte_count);
  encode_cell(*frozen.cell, frozen.layer, record_);
  frozen.had = true;
  return record_;
}

std::unique_ptr<value::Still> Filter::freeze() const {
  auto frozen = std::make_unique<FrozenCells>(stills_);
  for (std::uint32_t index = 0; index < layer_count(); ++index)
    layer(index).each_cell([&](Cell& cell) { frozen->add(cell, index); });
  return frozen;
}

Result<FilterPtr> Filter::make(const Plan& plan, std::uint64_t body_bytes) {
  FilterPtr filter(new Filter(plan));
  filter->body_ = std::make_unique<Body>(
      Body{.bytes = make_lines(static_cast<std::size_t>(body_bytes)), .byte_count = body_bytes});
  if (filter->body_->bytes == nullptr) return fail(Errc::out_of_memory);
  filter->take_own(value::heap_footprint(value::heap_line_bytes(body_bytes)));
  return filter;
}

void Filter::fill_body(std::uint64_t offset, std::span<const std::byte> from) {
  std::ranges::copy(from, body_->all().subspan(static_cast<std::size_t>(offset)).begin());
}

Result<void> Filter::complete() {
  std::span<std::byte> left = body_->all();
  std::uint64_t bytes = 0;
  for (std::uint32_t index = 0; !left.empty(); ++index) {
    if (index >= plan_.layer_count) return damaged("a filter has cells of more layers than it may have");
    auto made = Layer::make_empty(plan_, index);
    while (!left.empty()) {
      auto record = decode_cell(left);
      if (!record) return record.error();
      if (record->layer != index) break;
      if (!made->may_have(record->form, record->entries_end))
        return damaged("a cell of a filter is not one of its layer");
      Cell& cell = made->add_loaded(record->form, record->first, record->root, record->lines);
      taken_.fetch_add(record->items, std::memory_order_relaxed);
      bytes += record->extras.capacity() * sizeof(Extra);
      cell.set_loaded(record->items, record->changes, record->removed, std::move(record->extras));
      left = left.subspan(record->byte_count);
    }
    if (!made->complete()) return damaged("the cells of a filter do not cover a layer");
    bytes += made->head_bytes();
    layers_[index].store(made.release(), std::memory_order_release);
    layer_count_.store(index + 1, std::memory_order_release);
  }
  if (layer_count() == 0) return damaged("a filter has no cells");
  take_own(bytes);
  return {};
}

}  // namespace sepal::cuckoo
