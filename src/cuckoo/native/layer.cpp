#include "cuckoo/native/layer.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/fields.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <utility>

namespace sepal::cuckoo {
namespace {

// A cell with less than this load becomes half as large, which gives it twice the load.
constexpr double small_load = 0.2;
bool is_small(std::uint64_t slots_used, const CellShape& shape) {
  return slots_used < static_cast<std::uint64_t>(small_load * shape.quotient_count());
}

// No cell becomes smaller than this.
constexpr std::uint32_t quotients_min = 64;

std::int64_t footprint(std::size_t bytes) {
  return static_cast<std::int64_t>(value::heap_footprint(value::heap_line_bytes(bytes)));
}

std::uint64_t cell_head_bytes_of(std::uint64_t cell_count) {
  return cell_count * (value::heap_footprint(sizeof(Cell)) + sizeof(std::unique_ptr<Cell>));
}

void retire_lines(std::uint64_t* lines, Memory& memory) {
  memory.retire(lines, [](void* retired) { value::heap_release_lines(retired); });
}

// A client may have added many items more often than the slots count, and removed them again.
void drop_zeros(std::vector<Extra>& extras, const Changer& by) {
  const std::size_t before = extras.capacity();
  forget_zeros(extras);
  if (extras.size() <= before / 4) extras.shrink_to_fit();
  by.took(-static_cast<std::int64_t>((before - extras.capacity()) * sizeof(Extra)));
}

auto find_extra(std::vector<Extra>& extras, std::uint64_t entry) {
  return std::ranges::lower_bound(extras, entry, {}, &Extra::entry);
}

}  // namespace

std::uint64_t Layer::head_bytes(std::uint64_t cell_count, std::uint64_t entry_count) {
  return value::heap_footprint(sizeof(Layer)) + value::heap_footprint(sizeof(Directory)) +
         cell_head_bytes_of(cell_count) + entry_count * sizeof(std::atomic<Cell*>);
}

std::uint64_t Layer::head_bytes() const {
  const std::uint64_t heads =
      head_bytes(cells_.size(), directory_.load(std::memory_order_relaxed)->cells.size());
  return lines_ ? heads + value::Bitmap::footprint(first_form().shape.byte_count() * plan_.root_count)
                : heads;
}

bool Layer::may_have(const Cell::Form& form, std::uint64_t entries_end) const {
  const unsigned remainder_bits = form.shape.remainder_bits();
  const unsigned depth_max =
      std::min<unsigned>(plan().remainder_bits_first - plan().remainder_bits_min, plan().identity_bits);
  return remainder_bits >= plan().remainder_bits_min && remainder_bits <= plan().remainder_bits_first &&
         form.depth <= depth_max && form.shape == shape_of(form.depth, remainder_bits) &&
         entries_end <= identities(form.depth);
}

// The first fraction of the entry's range, and the first hash behind it: hashes are the roots times further
// apart than fractions. The ranges of a plan are wide enough; this does not believe it.
std::optional<std::uint64_t> Layer::hash_of(const Cell::Form& form, std::uint64_t first, std::uint32_t root,
                                            std::uint64_t entry) const {
  const std::uint64_t count = identities(form.depth);
  const Product rest = ((static_cast<Product>(entry) << word_bits) + count - 1) / count;
  const Product step = Product{1} << form.depth;
  const auto fraction = first | static_cast<std::uint64_t>((rest + step - 1) / step);
  const Product place = static_cast<Product>(root) << word_bits | fraction;
  const auto hash = static_cast<std::uint64_t>((place + plan_.root_count - 1) / plan_.root_count);
  const ItemPlace at = place_of(hash, plan_.root_count);
  const bool in_range = form.depth == 0 || (at.fraction ^ first) >> (word_bits - form.depth) == 0;
  if (at.root != root || !in_range || number_of(form, entry_of(form, at.fraction)) != entry)
    return std::nullopt;
  return hash;
}

std::uint64_t Layer::byte_count(const Plan& plan, std::uint32_t index) {
  const LayerPlan& layer = plan.layers[index];
  const std::uint64_t heads = head_bytes(plan.root_count, plan.root_count);
  if (!layer.fixed()) return heads;
  const CellShape shape(plan.root_quotients, layer.remainder_bits_first);
  return heads + value::Bitmap::footprint(shape.byte_count() * plan.root_count);
}

std::unique_ptr<Layer> Layer::make_empty(const Plan& plan, std::uint32_t index) {
  return std::unique_ptr<Layer>(new Layer(plan, index));
}

std::unique_ptr<Layer> Layer::make(const Plan& plan, std::uint32_t index) {
  auto layer = make_empty(plan, index);
  const bool fixed = layer->plan().fixed();
  if (fixed && !layer->make_fixed_lines(value::Paging::small)) return nullptr;
  layer->cells_.reserve(plan.root_count);
  for (std::uint32_t root = 0; root < plan.root_count; ++root)
    layer->add_loaded(layer->first_form(), 0, root, fixed ? layer->fixed_lines(root) : nullptr);
  const auto covered = layer->complete();
  SEPAL_ASSERT(covered, "the roots of a layer do not cover it");
  return layer;
}

bool Layer::make_fixed_lines(value::Paging paging) {
  auto lines = value::Bitmap::allocate(first_form().shape.byte_count() * plan_.root_count, paging);
  if (lines) lines_.emplace(std::move(*lines));
  return lines.has_value();
}

std::uint64_t* Layer::fixed_lines(std::uint32_t root) const {
  return lines_->words() + first_form().shape.byte_count() / sizeof(std::uint64_t) * root;
}

Layer::~Layer() {
  for (const auto& cell : cells_)
    if (cell->owns_lines()) value::heap_release_lines(cell->lines());
  delete directory_.load(std::memory_order_relaxed);
}

Cell& Layer::add_loaded(const Cell::Form& form, std::uint64_t first, std::uint32_t root,
                        std::uint64_t* lines) {
  Cell* const last = cells_.empty() ? nullptr : cells_.back().get();
  Cell& cell =
      *cells_.emplace_back(std::make_unique<Cell>(form, first, root, static_cast<std::uint8_t>(index_)));
  cell.set(form, lines, false);
  if (last != nullptr) last->set_next(&cell);
  return cell;
}

Result<void> Layer::complete() {
  const auto not_covered = [] { return damaged("the cells of a filter do not cover a layer"); };
  unsigned depth = 0;
  for (const auto& cell : cells_) depth = std::max<unsigned>(depth, cell->form().depth);
  if (!may_be_as_deep(depth, cells_.size()))
    return damaged("a cell of a filter is much deeper than those beside it");
  auto directory = std::make_unique<Directory>(plan_.root_count, depth);
  std::size_t next = 0;
  for (const auto& cell : cells_) {
    const std::size_t count = std::size_t{1} << (depth - cell->form().depth);
    if (cell->root() >= plan_.root_count ||
        directory->index({.root = cell->root(), .fraction = cell->first()}) != next ||
        count > directory->cells.size() - next)
      return not_covered();
    for (std::size_t at = 0; at < count; ++at)
      directory->cells[next++].store(cell.get(), std::memory_order_relaxed);
  }
  if (next != directory->cells.size()) return not_covered();
  first_ = cells_.front().get();
  delete directory_.exchange(directory.release(), std::memory_order_release);
  return {};
}

// --- look-ups ---------------------------------------------------------------------------------------------

Cell& Layer::lock(const ItemPlace& at) const {
  for (;;) {
    Cell& cell = find(at);
    cell.lock();
    if (cell.covers(at.fraction)) return cell;
    cell.unlock();
  }
}

std::uint32_t Layer::count(const ItemPlace& at, std::uint32_t max) const {
  std::uint32_t found = 0;
  const auto read = [&](const Cell::Form& form, std::uint64_t* lines) {
    if (lines == nullptr) {
      found = 0;
      return;
    }
    const Entry entry = entry_of(form, at.fraction);
    found = CellLines(form.shape, lines).count(entry.quotient, entry.remainder, max);
  };
  while (!find(at).read(at.fraction, read)) {
  }
  return found;
}

// First the cells of all items are read, which tell the lines; then the lines; then it is asked whether the
// cells are still the same. So the lines are on their way together, and a step is one loop without branches.
// What these do not tell is looked up alone: where a writer was there, and where a run is longer than a line.
void Layer::contains(std::span<const ItemPlace> items, std::span<bool> present) const {
  static constexpr std::array<std::uint64_t, line_words> empty_line{};
  struct Seen {
    const Cell* cell;
    std::uint32_t version;
  };
  std::array<EntrySought, looks_max> entries;
  std::array<Seen, looks_max> seen;
  std::uint64_t alone = 0;
  const Directory& directory = *directory_.load(std::memory_order_acquire);
  const std::uint64_t all = identities(0);
  for (std::size_t at = 0; at < items.size(); ++at) {
    const Cell::Begun begun = directory.find(items[at]).begin_read();
    const std::uint64_t fraction = items[at].fraction;
    seen[at] = {.cell = begun.cell, .version = begun.version};
    if (!begun.is_whole || begun.lines == nullptr || !begun.cell->covers(begun.form, fraction)) [[unlikely]] {
      entries[at] = {.line = empty_line.data(), .remainder = 0, .remainder_bits = 1, .slot = 0};
      alone |= std::uint64_t{1} << at;
      continue;
    }
    entries[at] = sought(begun, fraction, all);
    __builtin_prefetch(entries[at].line);
  }
  alone |= CellLines::find(std::span(entries).first(items.size()), present.data());
  std::atomic_thread_fence(std::memory_order_acquire);
  for (std::size_t at = 0; at < items.size(); ++at)
    alone |= std::uint64_t{seen[at].cell->is_still_at(seen[at].version) ? 0U : 1U} << at;
  for (; alone != 0; alone &= alone - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(alone));
    present[at] = count(items[at], 1) != 0;
  }
}

std::uint32_t Layer::count_locked(const Cell& cell, const ItemPlace& at) const {
  if (cell.lines() == nullptr) return 0;
  const Cell::Form form = cell.form();
  const Entry entry = entry_of(form, at.fraction);
  return CellLines(form.shape, cell.lines()).count(entry.quotient, entry.remainder, copies_in_slots);
}

std::uint64_t Layer::count_all(const ItemPlace& at) const {
  const std::uint32_t in_slots = count(at, copies_in_slots);
  if (in_slots < copies_in_slots) return in_slots;
  Cell& cell = lock(at);
  std::uint64_t found = count_locked(cell, at);
  const Cell::Form form = cell.form();
  const std::uint64_t number = number_of(form, entry_of(form, at.fraction));
  const auto extra = find_extra(cell.extras(), number);
  if (extra != cell.extras().end() && extra->entry == number) found += extra->count;
  cell.unlock();
  return found;
}

// --- adds -------------------------------------------------------------------------------------------------

bool Layer::may_resize(Cell& cell, std::uint64_t bytes, const Changer& by) {
  return by.may_take(bytes + by.stills.bytes_to_keep(cell)) && by.stills.keep(cell);
}

Put Layer::ensure_lines(Cell& cell, const Changer& by) {
  if (cell.lines() != nullptr) return Put::done;
  const std::size_t bytes = cell.form().shape.byte_count();
  if (!may_resize(cell, static_cast<std::uint64_t>(footprint(bytes)), by)) return Put::no_memory;
  Lines lines = make_lines(bytes);
  if (lines == nullptr) return Put::no_memory;
  cell.set(cell.form(), lines.release(), true);
  by.took(footprint(bytes));
  return Put::done;
}

// The cells of a filter that does not grow may be fuller than the average, which the filter counts.
bool Layer::is_full(const Cell& cell, const Changer& by) const {
  const CellShape shape = cell.form().shape;
  if (shape.remainder_bits() == plan().remainder_bits_min && (!plan_.options.scaling() || by.recorded))
    return false;
  return cell.slots_used() >= static_cast<std::uint64_t>(full_load * shape.quotient_count());
}

Put Layer::put(Cell*& cell, const ItemPlace& at, const Changer& by, std::uint64_t& number) {
  if (cell->is_worn_out()) [[unlikely]]
    return Put::no_room;
  if (const Put ready = ensure_lines(*cell, by); ready != Put::done) return ready;
  for (;;) {
    const Cell::Form form = cell->form();
    const Entry entry = entry_of(form, at.fraction);
    CellLines lines(form.shape, cell->lines());
    CellLines::Inserted inserted = CellLines::Inserted::no_room;
    if (!is_full(*cell, by)) {
      inserted = lines.insert(entry.quotient, entry.remainder, copies_in_slots);
    } else if (lines.count(entry.quotient, entry.remainder, copies_in_slots) == copies_in_slots) {
      inserted = CellLines::Inserted::enough_copies;
    }
    Put done = inserted == CellLines::Inserted::yes ? Put::done : Put::no_room;
    if (inserted == CellLines::Inserted::enough_copies) done = put_extra(*cell, number_of(form, entry), by);
    if (done == Put::done) {
      cell->count_added();
      number = cell->count_change(by.recorded);
    }
    if (done != Put::no_room) return done;
    if (const Put grown = grow(cell, at, by); grown != Put::done) return grown;
  }
}

Put Layer::put_extra(Cell& cell, std::uint64_t entry, const Changer& by) {
  std::vector<Extra>& extras = cell.extras();
  const auto at = find_extra(extras, entry);
  if (at != extras.end() && at->entry == entry) {
    ++at->count;
  } else {
    if (!may_resize(cell, 2 * sizeof(Extra) * (extras.size() + 1), by)) return Put::no_memory;
    const std::size_t before = extras.capacity();
    extras.insert(at, {.entry = entry, .count = 1});
    by.took(static_cast<std::int64_t>((extras.capacity() - before) * sizeof(Extra)));
  }
  cell.count_extra(1);
  return Put::done;
}

Put Layer::grow(Cell*& cell, const ItemPlace& at, const Changer& by) {
  const Cell::Form form = cell->form();
  const unsigned remainder_bits = form.shape.remainder_bits();
  if (remainder_bits <= plan().remainder_bits_min) return Put::no_room;
  if (quotients_of(form.depth, remainder_bits - 1) > CellShape::quotients_max(remainder_bits - 1))
    return split(cell, at, by);
  const Cell::Form larger{.shape = shape_of(form.depth, remainder_bits - 1), .depth = form.depth};
  if (!may_resize(*cell, static_cast<std::uint64_t>(footprint(larger.shape.byte_count())), by))
    return Put::no_memory;
  Put rebuild = Put::done;
  Lines lines = rebuilt(*cell, larger.shape, rebuild);
  if (rebuild != Put::done) return rebuild;
  replace_lines(*cell, larger, std::move(lines), by);
  return Put::done;
}

Lines Layer::rebuilt(const Cell& cell, const CellShape& shape, Put& done) {
  Lines lines = make_lines(shape.byte_count());
  if (lines == nullptr) {
    done = Put::no_memory;
    return nullptr;
  }
  const CellShape old = cell.form().shape;
  CellBuilder builder(CellLines(shape, lines.get()));
  bool fits = true;
  const bool whole = CellLines(old, cell.lines()).each([&](std::uint32_t quotient, std::uint64_t remainder) {
    const std::uint64_t number = std::uint64_t{quotient} << old.remainder_bits() | remainder;
    fits = fits && builder.add(static_cast<std::uint32_t>(number >> shape.remainder_bits()),
                               number & low_bits(shape.remainder_bits()));
  });
  SEPAL_ASSERT(whole, "the lines of a cell contradict themselves");
  if (!fits) done = Put::no_room;
  return lines;
}

void Layer::replace_lines(Cell& cell, const Cell::Form& form, Lines lines, const Changer& by) {
  std::int64_t bytes = footprint(form.shape.byte_count());
  if (cell.owns_lines()) {
    retire_lines(cell.lines(), by.memory);
    bytes -= footprint(cell.form().shape.byte_count());
  }
  cell.set(form, lines.release(), true);
  drop_zeros(cell.extras(), by);
  by.took(bytes);
}

Put Layer::split(Cell*& cell, const ItemPlace& at, const Changer& by) {
  const Cell::Form form = cell->form();
  // Only so often can the identities be halved. A plan of ours does not come there, but an image may have
  // one.
  if (form.depth >= plan().identity_bits) return Put::no_room;
  const unsigned old_bits = form.shape.remainder_bits();
  const Cell::Form half{.shape = shape_of(form.depth + 1U, old_bits - 1),
                        .depth = static_cast<std::uint8_t>(form.depth + 1)};
  const std::size_t half_bytes = half.shape.byte_count();
  std::uint64_t bytes = 2 * static_cast<std::uint64_t>(footprint(half_bytes));
  {
    const SpinGuard lock(directory_lock_);
    if (!may_be_as_deep(half.depth, cells_.size() + 1)) return Put::no_room;
    if (half.depth > directory_.load(std::memory_order_relaxed)->depth)
      bytes += (std::uint64_t{plan_.root_count} << half.depth) * sizeof(std::atomic<Cell*>);
  }
  if (!may_resize(*cell, bytes, by)) return Put::no_memory;
  Lines left_lines = make_lines(half_bytes);
  Lines right_lines = make_lines(half_bytes);
  if (left_lines == nullptr || right_lines == nullptr) return Put::no_memory;
  CellBuilder left(CellLines(half.shape, left_lines.get()));
  CellBuilder right(CellLines(half.shape, right_lines.get()));
  const std::uint64_t middle = identities(half.depth);
  std::uint64_t right_count = 0;
  bool fits = true;
  const bool whole =
      CellLines(form.shape, cell->lines()).each([&](std::uint32_t quotient, std::uint64_t remainder) {
        std::uint64_t number = std::uint64_t{quotient} << old_bits | remainder;
        const bool is_right = number >= middle;
        if (is_right) number -= middle;
        right_count += is_right ? 1 : 0;
        fits = fits && (is_right ? right : left)
                           .add(static_cast<std::uint32_t>(number >> half.shape.remainder_bits()),
                                number & low_bits(half.shape.remainder_bits()));
      });
  SEPAL_ASSERT(whole, "the lines of a cell contradict themselves");
  if (!fits) return Put::no_room;

  auto made = std::make_unique<Cell>(half, cell->first() | std::uint64_t{1} << (word_bits - half.depth),
                                     cell->root(), cell->layer());
  Cell& other = *made;
  other.set(half, right_lines.release(), true);
  by.took(footprint(half_bytes) + static_cast<std::int64_t>(cell_head_bytes_of(1)));
  replace_lines(*cell, half, std::move(left_lines), by);
  other.lock();
  cell->give_half(other, middle, right_count);
  // As many as the lower half has lost. But that one keeps the room for them.
  by.took(static_cast<std::int64_t>(other.extras().capacity() * sizeof(Extra)));
  enter(std::move(made), by);
  if (other.covers(at.fraction)) {
    cell->unlock();
    cell = &other;
  } else {
    other.unlock();
  }
  return Put::done;
}

void Layer::enter(std::unique_ptr<Cell> right, const Changer& by) {
  const SpinGuard lock(directory_lock_);
  Directory* directory = directory_.load(std::memory_order_relaxed);
  const unsigned depth = right->form().depth;
  if (depth > directory->depth) {
    auto larger = std::make_unique<Directory>(plan_.root_count, depth);
    for (std::size_t at = 0; at < larger->cells.size(); ++at)
      larger->cells[at].store(
          directory->cells[at >> (depth - directory->depth)].load(std::memory_order_relaxed),
          std::memory_order_relaxed);
    by.took(static_cast<std::int64_t>((larger->cells.size() - directory->cells.size()) *
                                      sizeof(std::atomic<Cell*>)));
    Directory* const smaller = std::exchange(directory, larger.release());
    // No reader finds the smaller one from here on.
    directory_.store(directory, std::memory_order_release);
    by.memory.retire(smaller, [](void* retired) { delete static_cast<Directory*>(retired); });
  }
  const std::size_t first = directory->index({.root = right->root(), .fraction = right->first()});
  const std::size_t count = std::size_t{1} << (directory->depth - depth);
  for (std::size_t at = first; at < first + count; ++at)
    directory->cells[at].store(right.get(), std::memory_order_release);
  cells_.push_back(std::move(right));
}

// --- removals ---------------------------------------------------------------------------------------------

bool Layer::take(Cell& cell, const ItemPlace& at, const Changer& by, std::uint64_t& number) {
  if (cell.lines() == nullptr || cell.is_worn_out()) return false;
  const Cell::Form form = cell.form();
  const Entry entry = entry_of(form, at.fraction);
  CellLines lines(form.shape, cell.lines());
  // An entry that has a count has all of copies_in_slots in slots.
  const bool counted = !cell.extras().empty() && take_extra(cell, number_of(form, entry), by);
  if (!counted && !lines.remove(entry.quotient, entry.remainder)) return false;
  cell.count_removed();
  number = cell.count_change(by.recorded);
  if (!plan().fixed() && is_small(cell.slots_used(), form.shape)) shrink(cell, by);
  return true;
}

bool Layer::take_extra(Cell& cell, std::uint64_t entry, const Changer& by) {
  std::vector<Extra>& extras = cell.extras();
  const auto at = find_extra(extras, entry);
  if (at == extras.end() || at->entry != entry || at->count == 0) return false;
  --at->count;
  cell.count_extra(-1);
  // A removal takes no memory, so it keeps nothing.
  if (at->count == 0 && !by.stills.need(cell)) drop_zeros(extras, by);
  return true;
}

void Layer::shrink(Cell& cell, const Changer& by) {
  const Cell::Form form = cell.form();
  const unsigned remainder_bits = form.shape.remainder_bits() + 1;
  if (remainder_bits > plan().remainder_bits_first) return;
  const Cell::Form smaller{.shape = shape_of(form.depth, remainder_bits), .depth = form.depth};
  if (smaller.shape.quotient_count() < quotients_min) return;
  // Without memory or room the cell stays as it is. No limit is asked for its smaller lines: more comes back.
  // What a removal does not get is no refusal of the filter.
  if (!by.memory.may_take(by.stills.bytes_to_keep(cell)) || !by.stills.keep(cell)) return;
  Put rebuild = Put::done;
  Lines lines = rebuilt(cell, smaller.shape, rebuild);
  if (rebuild == Put::done) replace_lines(cell, smaller, std::move(lines), by);
}

}  // namespace sepal::cuckoo
