#include "cuckoo/native/body.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/fields.hpp>

#include <algorithm>
#include <cstring>

#include "cuckoo/native/stills.hpp"

namespace sepal::cuckoo {
namespace {

constexpr std::size_t fields_bytes = 51;
constexpr std::size_t extra_bytes = 16;

// Counts the entries. With `entries`, appends them there, and believes the lines if each entry can be read.
// Else the entries must, written anew, give the lines. Errors: damaged, out_of_memory.
Result<void> check_lines(CellRecord& cell, std::uint64_t& count, std::vector<std::uint64_t>* entries) {
  const CellShape& shape = cell.form.shape;
  const Lines again = entries == nullptr ? make_lines(shape.byte_count()) : nullptr;
  if (entries == nullptr && again == nullptr) return fail(Errc::out_of_memory);
  if (entries != nullptr) entries->reserve(entries->size() + shape.quotient_count());
  CellBuilder builder(CellLines(shape, again.get()));
  count = 0;
  std::uint32_t copies = 0;
  bool right = true;
  const bool whole = CellLines(shape, cell.lines).each([&](std::uint32_t quotient, std::uint64_t remainder) {
    const std::uint64_t number = std::uint64_t{quotient} << shape.remainder_bits() | remainder;
    copies = number + 1 == cell.entries_end ? copies + 1 : 1;
    right = right && number + 1 >= cell.entries_end && copies <= copies_in_slots;
    cell.entries_end = number + 1;
    ++count;
    if (entries != nullptr) {
      entries->push_back(number);
    } else {
      right = right && builder.add(quotient, remainder);
    }
  });
  const bool same = again == nullptr || std::memcmp(cell.lines, again.get(), shape.byte_count()) == 0;
  if (whole && right && same) return {};
  return damaged("the lines of a cell are not those of its entries");
}

bool are_right(const std::vector<Extra>& extras, const CellShape& shape, std::uint64_t* lines,
               std::uint64_t& sum) {
  const std::uint64_t* last = nullptr;
  sum = 0;
  for (const Extra& extra : extras) {
    const std::uint64_t quotient = extra.entry >> shape.remainder_bits();
    if ((last != nullptr && extra.entry <= *last) || extra.count > ~sum || lines == nullptr ||
        quotient >= shape.quotient_count())
      return false;
    last = &extra.entry;
    if (extra.count == 0) continue;
    const std::uint32_t in_slots =
        CellLines(shape, lines)
            .count(static_cast<std::uint32_t>(quotient), extra.entry & low_bits(shape.remainder_bits()),
                   copies_in_slots + 1);
    if (in_slots != copies_in_slots) return false;
    sum += extra.count;
  }
  return true;
}

}  // namespace

void Filter::Body::give_back(std::byte* end) {
  // A call of the system for each cell would take longer than the copy.
  constexpr std::ptrdiff_t piece_bytes = std::ptrdiff_t{1} << 20;
  if (end - not_given < piece_bytes) return;
  value::heap_give_back(std::span(not_given, end));
  not_given = end;
}

std::size_t cell_record_bytes(std::size_t bytes_of_lines, std::size_t extra_count) {
  const std::size_t extras = (extra_count * extra_bytes + cell_head_bytes - 1) / cell_head_bytes;
  return cell_head_bytes * (1 + extras) + bytes_of_lines;
}

std::size_t record_bytes_of(const Cell& cell) {
  return cell_record_bytes(cell.lines() == nullptr ? 0 : cell.form().shape.byte_count(),
                           cell.extras().size());
}

void encode_cell(const Cell& cell, std::span<std::byte> into) {
  const Cell::Form form = cell.form();
  const std::size_t bytes_of_lines = cell.lines() == nullptr ? 0 : form.shape.byte_count();
  SEPAL_ASSERT(into.size() == cell_record_bytes(bytes_of_lines, cell.extras().size()),
               "a cell is written to a place of another size");
  std::ranges::fill(into.first(cell_head_bytes), std::byte{0});
  FieldWriter head(into);
  head.integer(cell.first());
  head.integer(cell.change_count());
  head.integer(cell.removed_count());
  head.integer(cell.item_count());
  head.integer(cell.root());
  head.integer(form.shape.quotient_count());
  head.integer(static_cast<std::uint32_t>(bytes_of_lines));
  head.integer(static_cast<std::uint32_t>(cell.extras().size()));
  head.integer(cell.layer());
  head.integer(form.depth);
  head.integer(static_cast<std::uint8_t>(form.shape.remainder_bits()));
  into = into.subspan(cell_head_bytes);
  // The caller has locked the cell, so no word changes.
  if (bytes_of_lines != 0) std::memcpy(into.data(), cell.lines(), bytes_of_lines);
  into = into.subspan(bytes_of_lines);
  std::ranges::fill(into, std::byte{0});
  FieldWriter extras(into);
  for (const Extra& extra : cell.extras()) {
    extras.integer(extra.entry);
    extras.integer(extra.count);
  }
}

Result<CellRecord> decode_cell(std::span<std::byte> bytes, std::vector<std::uint64_t>* entries) {
  if (bytes.size() < cell_head_bytes) return damaged("a cell of a filter is cut short");
  const auto zeros = bytes.first(cell_head_bytes).subspan(fields_bytes);
  FieldReader head(bytes);
  CellRecord cell;
  cell.first = head.integer<std::uint64_t>();
  cell.changes = head.integer<std::uint64_t>();
  cell.removed = head.integer<std::uint64_t>();
  cell.items = head.integer<std::uint64_t>();
  cell.root = head.integer<std::uint32_t>();
  const auto quotients = head.integer<std::uint32_t>();
  const auto bytes_of_lines = head.integer<std::uint32_t>();
  const auto extra_count = head.integer<std::uint32_t>();
  cell.layer = head.integer<std::uint8_t>();
  const auto depth = head.integer<std::uint8_t>();
  const unsigned remainder_bits = head.integer<std::uint8_t>();
  if (remainder_bits < 1 || remainder_bits > remainder_bits_max || quotients < 1 ||
      quotients > CellShape::quotients_max(remainder_bits) || depth >= word_bits ||
      !std::ranges::all_of(zeros, [](std::byte byte) { return byte == std::byte{0}; }) ||
      (cell.first & low_bits(word_bits - depth)) != 0)
    return damaged("a cell of a filter has a shape that no cell has");
  // There may be more items than the number of the last change: a replay may give the changes of two halves,
  // which have the same numbers, to a cell that it has not split.
  if (cell.changes > cell_count_max || cell.removed > cell_count_max || cell.items > cell_count_max)
    return damaged("a cell of a filter has counts that no cell has");
  cell.form = {.shape = CellShape(quotients, remainder_bits), .depth = depth};
  cell.byte_count = cell_record_bytes(bytes_of_lines, extra_count);
  if ((bytes_of_lines != 0 && bytes_of_lines != cell.form.shape.byte_count()) ||
      cell.byte_count > bytes.size())
    return damaged("a cell of a filter has another length than its head says");
  // So the cells of an image have bytes in proportion to the memory that they take.
  if (depth != 0 && bytes_of_lines == 0) return damaged("a cell of a filter was split, and has no lines");
  if (bytes_of_lines != 0)
    cell.lines = reinterpret_cast<std::uint64_t*>(bytes.subspan(cell_head_bytes).data());
  FieldReader extras(bytes.subspan(cell_head_bytes + bytes_of_lines));
  cell.extras.reserve(extra_count);
  for (std::uint32_t at = 0; at < extra_count; ++at) {
    const auto entry = extras.integer<std::uint64_t>();
    cell.extras.push_back({.entry = entry, .count = extras.integer<std::uint64_t>()});
  }
  std::uint64_t in_slots = 0;
  std::uint64_t beside = 0;
  if (cell.lines != nullptr) {
    if (auto right = check_lines(cell, in_slots, entries); !right) return right.error();
  }
  if (!are_right(cell.extras, cell.form.shape, cell.lines, beside) || beside > cell.items ||
      cell.items - beside != in_slots)
    return damaged("the counts of a cell contradict its lines");
  forget_zeros(cell.extras);
  return cell;
}

}  // namespace sepal::cuckoo
