#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/cuckoo/native/pieces.hpp>

#include <algorithm>
#include <optional>
#include <string_view>

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

bool begins(Bytes bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::ranges::equal(bytes.first(magic.size()), std::as_bytes(std::span(magic)));
}

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
  if (piece.size() < piece_head_bytes + checksum_bytes || !begins(piece, magic))
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
  return begins(bytes, header_magic);
}

bool begins_cells_piece(Bytes bytes) {
  return begins(bytes, cells_magic);
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

// An entry of a piece, as an item that has it.
struct Filter::LoadedEntry {
  Layer* layer;
  std::uint32_t index;
  std::uint64_t hash;
  ItemPlace at;
  std::uint64_t copies;
};

// Takes the entries of a cell. False: they are none of a cell with this range.
bool Filter::take_entries(const CellRecord& cell, std::vector<LoadedEntry>& entries) const {
  Layer& its = layer(cell.layer);
  bool right = true;
  const auto take = [&](std::uint64_t entry, std::uint64_t count) {
    const auto hash = its.hash_of(cell.form, cell.first, cell.root, entry);
    right = right && hash.has_value();
    if (!hash) return;
    entries.push_back({.layer = &its,
                       .index = cell.layer,
                       .hash = *hash,
                       .at = cuckoo::place_of(*hash, plan_.root_count),
                       .copies = count});
  };
  const unsigned remainder_bits = cell.form.shape.remainder_bits();
  const auto take_slot = [&](std::uint32_t quotient, std::uint64_t remainder) {
    take(std::uint64_t{quotient} << remainder_bits | remainder, 1);
  };
  const bool whole = cell.lines == nullptr || CellLines(cell.form.shape, cell.lines).each(take_slot);
  for (const Extra& extra : cell.extras) take(extra.entry, extra.count);
  return whole && right;
}

PieceOutcome Filter::read_piece(Bytes bytes, Memory& memory, std::vector<LoadedEntry>& entries) {
  const auto body = opened(bytes, cells_magic);
  if (!body) return PieceOutcome::damaged;
  const Bytes records = body->subspan(piece_head_bytes - cells_magic.size() - 2 * sizeof(piece_version));
  if (records.size() % line_bytes != 0) return PieceOutcome::damaged;
  // Lines are read as words.
  const Lines copy = make_lines(records.size());
  if (copy == nullptr) return PieceOutcome::no_memory;
  std::span<std::byte> left =
      std::as_writable_bytes(std::span(copy.get(), records.size() / sizeof(std::uint64_t)));
  std::ranges::copy(records, left.begin());
  std::uint64_t copies = 0;
  while (!left.empty()) {
    const auto cell = decode_cell(left);
    if (!cell || cell->layer >= plan_.layer_count || cell->root >= plan_.root_count)
      return PieceOutcome::damaged;
    if (cell->items > piece_copies_max || (copies += cell->items) > piece_copies_max)
      return PieceOutcome::too_many_copies;
    for (std::uint32_t made = 0; made <= cell->layer; ++made)
      if (layer_made(made, memory) == nullptr) return PieceOutcome::no_memory;
    if (!layer(cell->layer).may_have(cell->form, cell->entries_end) || !take_entries(*cell, entries))
      return PieceOutcome::damaged;
    left = left.subspan(cell->byte_count);
  }
  return PieceOutcome::loaded;
}

PieceOutcome Filter::load_piece(Bytes bytes, Memory& memory, value::AddRecorder* recorder) {
  std::vector<LoadedEntry> entries;
  if (const auto outcome = read_piece(bytes, memory, entries); outcome != PieceOutcome::loaded)
    return outcome;
  std::uint64_t copies = 0;
  for (const LoadedEntry& entry : entries) {
    if (entry.layer->count(entry.at, 1) != 0) return PieceOutcome::there;
    copies += entry.copies;
  }
  if (!plan_.options.scaling()) {
    if (taken_.load(std::memory_order_relaxed) + copies > plan_.item_count_max()) return PieceOutcome::full;
    taken_.fetch_add(copies, std::memory_order_relaxed);
  }
  const bool has_key = recorder == nullptr || recorder->begin();
  SEPAL_ASSERT(has_key, "a piece is loaded into a filter that is losing its key");
  ToldRecords told(recorder, static_cast<std::size_t>(copies));
  const Changer by{.memory = memory, .stills = *stills_, .account = account_};
  Put put = Put::done;
  for (const LoadedEntry& entry : entries) {
    for (std::uint64_t copy = 0; copy < entry.copies && put == Put::done; ++copy) {
      Cell* cell = &entry.layer->lock(entry.at);
      std::uint64_t number = 0;
      put = entry.layer->put(cell, entry.at, by, number);
      cell->unlock();
      if (put == Put::done) {
        told.add(record_of(entry.hash, number, entry.index, false));
        --copies;
      }
    }
  }
  told.end();
  // What was not loaded takes no place.
  if (!plan_.options.scaling()) taken_.fetch_sub(copies, std::memory_order_relaxed);
  if (put == Put::done) return PieceOutcome::loaded;
  return put == Put::no_room ? PieceOutcome::full : PieceOutcome::no_memory;
}

}  // namespace sepal::cuckoo
