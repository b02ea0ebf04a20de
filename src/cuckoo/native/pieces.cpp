#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/cuckoo/native/pieces.hpp>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "cuckoo/native/body.hpp"
#include "cuckoo/native/layer.hpp"
#include "cuckoo/native/records.hpp"

namespace sepal::cuckoo {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view header_magic = "SPCH";
constexpr std::string_view cells_magic = "SPCC";
constexpr std::uint16_t piece_version = 1;
constexpr std::size_t piece_head_bytes = 64;
constexpr std::size_t checksum_bytes = sizeof(std::uint64_t);
static_assert(piece_head_bytes == header_magic.size() + 2 * sizeof(piece_version) + plan_bytes);

// The cells that are looked at for one piece: many of them may be empty.
constexpr int cells_at_once = 1024;

// A place as a number: layer, root, and the high half of the fraction. No cell begins between two of them.
constexpr unsigned root_at = 32;
constexpr unsigned layer_at = 60;
static_assert(root_count_max <= std::uint64_t{1} << (layer_at - root_at));

std::uint64_t checksum_of(std::string_view bytes) {
  return hash64(bytes, 0);
}

std::string begun(std::string_view magic) {
  std::string piece(piece_head_bytes, '\0');
  FieldWriter head(std::as_writable_bytes(std::span(piece)));
  head.bytes(std::as_bytes(std::span(magic)));
  head.integer(piece_version);
  return piece;
}

void seal(std::string& piece) {
  const std::uint64_t checksum = checksum_of(piece);
  piece.resize(piece.size() + checksum_bytes);
  store_little_endian(piece.data() + piece.size() - checksum_bytes, checksum);
}

// What stands between the head's version and the checksum. Errors: damaged, unsupported_version.
Result<Bytes> opened(Bytes piece, std::string_view magic) {
  if (piece.size() < piece_head_bytes + checksum_bytes || !begins_with(piece, magic))
    return damaged("a piece of a filter is cut short");
  const Bytes sealed = piece.first(piece.size() - checksum_bytes);
  if (load_little_endian<std::uint64_t>(piece.last(checksum_bytes).data()) !=
      checksum_of({reinterpret_cast<const char*>(sealed.data()), sealed.size()}))
    return damaged("a piece of a filter has another checksum");
  FieldReader head(sealed.subspan(magic.size()));
  if (head.integer<std::uint16_t>() != piece_version)
    return fail(Errc::unsupported_version, "a piece of a filter is of another version");
  if (head.integer<std::uint16_t>() != 0) return damaged("the head of a piece has bits that no head has");
  return sealed.subspan(magic.size() + 2 * sizeof(piece_version));
}

std::uint64_t number_of(std::uint32_t layer, const ItemPlace& at) {
  return std::uint64_t{layer} << layer_at | std::uint64_t{at.root} << root_at | at.fraction >> root_at;
}

// The place behind a cell's range.
ItemPlace behind(const Cell& cell) {
  const unsigned depth = cell.form().depth;
  const std::uint64_t end = depth == 0 ? 0 : cell.first() + (std::uint64_t{1} << (word_bits - depth));
  return end == 0 ? ItemPlace{.root = cell.root() + 1, .fraction = 0}
                  : ItemPlace{.root = cell.root(), .fraction = end};
}

}  // namespace

std::string header_piece(const Plan& plan) {
  std::string piece = begun(header_magic);
  encode(plan, std::as_writable_bytes(std::span(piece)).last(plan_bytes));
  seal(piece);
  return piece;
}

bool begins_header_piece(Bytes bytes) {
  return begins_with(bytes, header_magic);
}

bool begins_cells_piece(Bytes bytes) {
  return begins_with(bytes, cells_magic);
}

Result<Plan> decode_header_piece(Bytes bytes) {
  const auto plan = opened(bytes, header_magic);
  return plan ? decode_plan(*plan) : plan.error();
}

std::optional<CellsPiece> Filter::piece_at(std::uint64_t place) const {
  auto index = static_cast<std::uint32_t>(place >> layer_at);
  ItemPlace at{.root = static_cast<std::uint32_t>(place >> root_at & low_bits(layer_at - root_at)),
               .fraction = place << root_at};
  if (index >= layer_count()) return std::nullopt;
  CellsPiece piece{.bytes = begun(cells_magic)};
  for (int count = 0; count < cells_at_once; ++count) {
    if (at.root >= plan_.root_count) {
      at = {};
      if (++index >= layer_count()) break;
    }
    Cell& cell = layer(index).lock(at);
    const std::size_t record_bytes = cell.item_count() == 0 ? 0 : record_bytes_of(cell);
    const std::size_t before = piece.bytes.size();
    const bool fits = before == piece_head_bytes || before + record_bytes <= piece_bytes_max;
    if (fits && record_bytes != 0) {
      piece.bytes.resize(before + record_bytes);
      encode_cell(cell, std::as_writable_bytes(std::span(piece.bytes)).subspan(before));
    }
    if (fits) at = behind(cell);
    cell.unlock();
    if (!fits) break;
  }
  piece.next = number_of(index, at);
  seal(piece.bytes);
  return piece;
}

// --- loads ------------------------------------------------------------------------------------------------

struct PieceLoad::State {
  explicit State(const Filter& to) : filter(to.identity()), plan(to.plan()) {}

  struct ItsCell {
    Cell::Form form;
    std::uint64_t first;
    std::uint32_t root;
    std::uint32_t layer;
  };
  struct Item {
    std::uint64_t hash;  // of an item that has the entry; before the look-up, the entry
    std::uint32_t copies;
    std::uint32_t cell;
  };
  // `slots`: the entries in slots. Errors: damaged.
  Result<void> take(const CellRecord& cell, std::span<const std::uint64_t> slots);

  const std::uint64_t filter;  // its identity
  const Plan plan;
  std::array<std::unique_ptr<const Layer>, layer_count_max> layers;  // without cells: they know the shapes
  std::vector<ItsCell> cells;
  std::vector<Item> items;
  std::uint64_t copy_count = 0;  // of all items
  std::size_t looked_up = 0;
  std::size_t added = 0;
  std::uint32_t copies_added = 0;  // of the item behind those
  std::uint64_t all_added = 0;
};

PieceLoad::PieceLoad(const Filter& to) : state_(std::make_unique<State>(to)) {}
PieceLoad::~PieceLoad() = default;

bool PieceLoad::is_for(const Filter& filter) const {
  return state_->filter == filter.identity();
}

std::uint64_t PieceLoad::added_count() const {
  return state_->all_added;
}

std::uint64_t PieceLoad::byte_count() const {
  return sizeof(State) + state_->cells.capacity() * sizeof(State::ItsCell) +
         state_->items.capacity() * sizeof(State::Item);
}

Result<void> PieceLoad::State::take(const CellRecord& cell, std::span<const std::uint64_t> slots) {
  if (cell.layer >= plan.layer_count || cell.root >= plan.root_count)
    return damaged("a piece has a cell that its filter cannot have");
  auto& layer = layers[cell.layer];
  if (layer == nullptr) layer = Layer::make_empty(plan, cell.layer);
  if (!layer->may_have(cell.form, cell.entries_end))
    return damaged("a piece has a cell that is not one of its layer");
  const auto number = static_cast<std::uint32_t>(cells.size());
  cells.push_back({.form = cell.form, .first = cell.first, .root = cell.root, .layer = cell.layer});
  if (items.empty()) items.reserve(slots.size() + cell.extras.size());
  for (const std::uint64_t entry : slots) items.push_back({.hash = entry, .copies = 1, .cell = number});
  for (const Extra& extra : cell.extras)
    items.push_back({.hash = extra.entry, .copies = static_cast<std::uint32_t>(extra.count), .cell = number});
  return {};
}

PieceOutcome PieceLoad::read(Bytes piece) {
  // The head and the counts of the largest cell: each of them has copies in slots.
  constexpr std::size_t longest =
      2 * piece_bytes_max + CellShape::line_count_max * word_bits / copies_in_slots * sizeof(Extra);
  const auto body = opened(piece, cells_magic);
  if (!body || piece.size() > longest) return PieceOutcome::damaged;
  const Bytes records = body->subspan(piece_head_bytes - cells_magic.size() - 2 * sizeof(piece_version));
  if (records.size() % line_bytes != 0) return PieceOutcome::damaged;
  // Lines are read as words.
  const Lines copy = make_lines(records.size());
  if (copy == nullptr) throw std::bad_alloc();
  std::span<std::byte> left =
      std::as_writable_bytes(std::span(copy.get(), records.size() / sizeof(std::uint64_t)));
  std::ranges::copy(records, left.begin());
  std::size_t bytes_of_lines = 0;
  std::vector<std::uint64_t> slots;
  while (!left.empty()) {
    slots.clear();
    const auto cell = decode_cell(left, &slots);
    if (!cell && cell.error().code == Errc::out_of_memory) throw std::bad_alloc();
    if (!cell) return PieceOutcome::damaged;
    if (cell->lines != nullptr) bytes_of_lines += cell->form.shape.byte_count();
    if (bytes_of_lines > piece_bytes_max) return PieceOutcome::damaged;
    state_->copy_count += std::min(cell->items, piece_copies_max + 1);
    if (state_->copy_count > piece_copies_max) return PieceOutcome::too_many_copies;
    if (!state_->take(*cell, slots)) return PieceOutcome::damaged;
    left = left.subspan(cell->byte_count);
  }
  return state_->items.empty() ? PieceOutcome::loaded : PieceOutcome::more;
}

PieceOutcome Filter::load_some(PieceLoad& piece, Memory& memory, value::AddRecorder* recorder) {
  if (!piece.is_for(*this)) return PieceOutcome::gone;
  PieceLoad::State& load = *piece.state_;
  if (load.looked_up < load.items.size()) return look_up_some(load);
  if (recorder != nullptr && !recorder->begin()) return PieceOutcome::losing_key;
  const Changer by{.memory = memory, .stills = *stills_, .account = account_};
  value::ToldEntries told(recorder, piece_step_max);
  PieceOutcome outcome = PieceOutcome::more;
  for (std::size_t count = 0; count < piece_step_max && outcome == PieceOutcome::more; ++count) {
    Fingerprint record;
    const std::uint64_t before = load.all_added;
    outcome = add_next_of(load, by, record);
    if (load.all_added != before) told.add(record);
  }
  told.end();
  return outcome;
}

PieceOutcome Filter::look_up_some(PieceLoad::State& load) const {
  const std::size_t end = std::min(load.items.size(), load.looked_up + piece_step_max);
  for (; load.looked_up < end; ++load.looked_up) {
    auto& item = load.items[load.looked_up];
    const auto& cell = load.cells[item.cell];
    const auto hash = load.layers[cell.layer]->hash_of(cell.form, cell.first, cell.root, item.hash);
    if (!hash) return PieceOutcome::damaged;
    item.hash = *hash;
    const ItemPlace at = cuckoo::place_of(*hash, plan_.root_count);
    if (cell.layer < layer_count() && layer(cell.layer).count(at, 1) != 0) return PieceOutcome::there;
  }
  const bool has_room = plan_.options.scaling() ||
                        taken_.load(std::memory_order_relaxed) + load.copy_count <= plan_.item_count_max();
  return has_room ? PieceOutcome::more : PieceOutcome::full;
}

PieceOutcome Filter::add_next_of(PieceLoad::State& load, const Changer& by, Fingerprint& record) {
  const auto& item = load.items[load.added];
  const std::uint32_t index = load.cells[item.cell].layer;
  const bool scaling = plan_.options.scaling();
  Layer* const its = layers_made(index, by.memory);
  if (its == nullptr) return PieceOutcome::no_memory;
  const ItemPlace at = cuckoo::place_of(item.hash, plan_.root_count);
  Cell* cell = &its->lock(at);
  std::uint64_t number = 0;
  Put put = Put::no_room;
  const bool is_there = load.all_added == 0 && its->count_locked(*cell, at) != 0;
  const bool claimed = !is_there && (scaling || claim_room());
  if (claimed) put = its->put(cell, at, by, number);
  cell->unlock();
  if (is_there) return PieceOutcome::there;
  if (put != Put::done) {
    if (claimed && !scaling) taken_.fetch_sub(1, std::memory_order_relaxed);
    return put == Put::no_room ? PieceOutcome::full : PieceOutcome::no_memory;
  }
  record = record_of(item.hash, number, index, false);
  ++load.all_added;
  if (++load.copies_added == item.copies) {
    load.copies_added = 0;
    ++load.added;
  }
  return load.added == load.items.size() ? PieceOutcome::loaded : PieceOutcome::more;
}

}  // namespace sepal::cuckoo
