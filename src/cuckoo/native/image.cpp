// How a filter becomes bytes while it changes (stills.hpp), and bytes a filter.
#include <sepal/base/assert.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/cuckoo/native/filter.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuckoo/native/body.hpp"
#include "cuckoo/native/frozen_cells.hpp"

namespace sepal::cuckoo {

FrozenCells::FrozenCells(std::shared_ptr<Stills> stills, std::uint64_t forgotten)
    : stills_(std::move(stills)), forgotten_(forgotten), number_(stills_->add(*this)) {}

FrozenCells::~FrozenCells() {
  stills_->remove(*this);
}

void FrozenCells::add(const Layer& layer) {
  firsts_.push_back(&layer.first_cell());
  layer.each_cell([&](const Cell& cell) {
    byte_count_ += record_bytes_of(cell);
    item_count_ += cell.item_count();
  });
}

bool FrozenCells::wants(const Cell& cell) const {
  return cell.layer() < firsts_.size() && cell.freeze_number() < number_ &&
         (cell_ == nullptr || cell_->is_before(cell));
}

void FrozenCells::keep(const Cell& cell, std::shared_ptr<const KeptRecord> record) {
  kept_.insert_or_assign(&cell, std::move(record));
}

void FrozenCells::copy(std::uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    if (offset == record_begin_ + record_.size()) next_record();
    SEPAL_ASSERT(offset >= record_begin_ && offset - record_begin_ < record_.size(),
                 "a filter is copied in another order than that of its bytes");
    const auto from = record_.subspan(static_cast<std::size_t>(offset - record_begin_));
    const std::size_t count = std::min(from.size(), to.size());
    std::ranges::copy(from.first(count), to.begin());
    to = to.subspan(count);
    offset += count;
  }
}

Cell& FrozenCells::next_cell() const {
  if (cell_ == nullptr) return *firsts_.front();
  const CellGuard guard(*cell_);
  if (Cell* const next = cell_->next()) return *next;
  SEPAL_ASSERT(cell_->layer() + std::size_t{1} < firsts_.size(), "more of a filter is copied than it has");
  return *firsts_[cell_->layer() + std::size_t{1}];
}

// A record is fetched once, and stays until the next one is asked for: a cell may be read in several pieces.
void FrozenCells::next_record() {
  record_begin_ += record_.size();
  record_kept_.reset();
  for (;;) {
    Cell& cell = next_cell();
    const CellGuard guard(cell);
    {
      const MutexLock lock(stills_->mutex());
      cell_ = &cell;
      if (const auto kept = kept_.find(&cell); kept != kept_.end()) {
        record_kept_ = std::move(kept->second);
        kept_.erase(kept);
        record_ = record_kept_->bytes();
        return;
      }
    }
    // A split behind the freeze has made it.
    if (cell.freeze_number() >= number_) continue;
    live_.resize(record_bytes_of(cell));
    encode_cell(cell, live_);
    record_ = live_;
    return;
  }
}

std::unique_ptr<value::Still> Filter::freeze() const {
  auto frozen = std::make_unique<FrozenCells>(stills_, forgotten());
  for (std::uint32_t index = 0; index < layer_count(); ++index) frozen->add(layer(index));
  return frozen;
}

Result<FilterPtr> Filter::make(const Plan& plan, std::uint64_t forgotten, std::uint64_t body_bytes) {
  FilterPtr filter(new Filter(plan));
  filter->forgotten_.store(forgotten, std::memory_order_relaxed);
  // The body goes back piece by piece, and huge pages would have to be split for that.
  auto lines = value::Bitmap::allocate(body_bytes, value::Paging::small);
  if (!lines) return fail(Errc::out_of_memory);
  filter->body_ = std::make_unique<Body>(Body{.lines = std::move(*lines), .byte_count = body_bytes});
  filter->take_own(filter->body_->footprint());
  return filter;
}

void Filter::fill_body(std::uint64_t offset, std::span<const std::byte> from) {
  std::ranges::copy(from, body_->all().subspan(static_cast<std::size_t>(offset)).begin());
}

namespace {

// Every cell of a fixed layer has lines, so these are not more than the image.
Result<void> make_fixed_lines(Layer& layer, std::span<const std::byte> left) {
  const std::size_t bytes_of_lines = layer.first_form().shape.byte_count();
  if (left.size() / cell_record_bytes(bytes_of_lines, 0) < layer.root_count())
    return damaged("a filter has less cells than its plan says");
  if (!layer.make_fixed_lines(value::Paging::huge)) return fail(Errc::out_of_memory);
  return {};
}

// Adds the bytes that the cell takes for itself. Errors: damaged, out_of_memory.
Result<void> load_cell(Layer& layer, CellRecord& record, std::uint64_t& bytes) {
  const std::size_t bytes_of_lines = record.form.shape.byte_count();
  if (layer.plan().fixed()) {
    if (record.lines == nullptr || record.root >= layer.root_count())
      return damaged("a cell of a filter has no lines, or a root that its plan has not");
    std::uint64_t* const lines = layer.fixed_lines(record.root);
    std::memcpy(lines, record.lines, bytes_of_lines);
    record.lines = lines;
  }
  Cell& cell = layer.add_loaded(record.form, record.first, record.root, record.lines);
  if (!layer.plan().fixed() && record.lines != nullptr) {
    Lines own = make_lines(bytes_of_lines);
    if (own == nullptr) return fail(Errc::out_of_memory);
    std::memcpy(own.get(), record.lines, bytes_of_lines);
    cell.set(record.form, own.release(), true);
    bytes += value::heap_footprint(value::heap_line_bytes(bytes_of_lines));
  }
  bytes += record.extras.capacity() * sizeof(Extra);
  cell.set_loaded(record.items, record.changes, record.removed, std::move(record.extras));
  return {};
}

}  // namespace

// Takes the cells of a layer from `left`.
Result<std::unique_ptr<Layer>> Filter::load_layer(std::uint32_t index, std::span<std::byte>& left,
                                                  std::uint64_t& bytes) {
  auto made = Layer::make_empty(plan_, index);
  if (made->plan().fixed()) {
    if (auto lines = make_fixed_lines(*made, left); !lines) return lines.error();
  }
  while (!left.empty()) {
    auto record = decode_cell(left);
    if (!record) return record.error();
    if (record->layer != index) break;
    if (!made->may_have(record->form, record->entries_end))
      return damaged("a cell of a filter is not one of its layer");
    taken_.fetch_add(record->items, std::memory_order_relaxed);
    const std::size_t record_bytes = record->byte_count;
    if (auto loaded = load_cell(*made, *record, bytes); !loaded) return loaded.error();
    left = left.subspan(record_bytes);
    body_->give_back(left.data());
  }
  if (auto covered = made->complete(); !covered) return covered.error();
  bytes += made->head_bytes();
  return made;
}

Result<void> Filter::complete() {
  std::span<std::byte> left = body_->all();
  body_->not_given = left.data();
  std::uint64_t bytes = 0;
  for (std::uint32_t index = 0; !left.empty(); ++index) {
    if (index >= plan_.layer_count) return damaged("a filter has cells of more layers than it may have");
    auto loaded = load_layer(index, left, bytes);
    if (!loaded) return loaded.error();
    layers_[index].store(loaded->release(), std::memory_order_release);
    layer_count_.store(index + 1, std::memory_order_release);
  }
  if (layer_count() == 0) return damaged("a filter has no cells");
  if (forgotten() > all_removed()) return damaged("more removals of a filter are forgotten than there were");
  take_own(bytes - body_->footprint());
  body_ = nullptr;
  return {};
}

}  // namespace sepal::cuckoo
