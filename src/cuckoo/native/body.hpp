// The bytes of a filter in its image: the records of all cells, layer by layer, in the order of roots and
// fractions. docs/formats.md has the bytes.
//
//     head     first 8 | changes 8 | removed 8 | items 8 | root 4 | quotients 4 | line bytes 4 | extras 4 |
//              layer 1 | depth 1 | remainder bits 1 | zeros
//     lines    as in memory; none for a cell that never had an entry
//     extras   16 bytes each, and zeros up to a multiple of 64
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/cuckoo/native/filter.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuckoo/native/layer.hpp"

namespace sepal::cuckoo {

// The body of a filter that is loaded. The cells of the filter get lines of their own, and the body is given
// back to the system while it is read: so a large filter is not in memory twice.
struct Filter::Body {
  value::Bitmap lines;
  std::uint64_t byte_count = 0;
  std::byte* not_given = nullptr;  // behind what was given back

  [[nodiscard]] std::uint64_t footprint() const { return value::Bitmap::footprint(byte_count); }
  // The cells are read up to here.
  void give_back(std::byte* end);

  [[nodiscard]] std::span<std::byte> all() const {
    return std::as_writable_bytes(std::span(lines.words(), byte_count / sizeof(std::uint64_t)));
  }
};

// With the cell locked, or the gate closed.
[[nodiscard]] std::size_t record_bytes_of(const Cell& cell);
// `into` has record_bytes_of(cell).
void encode_cell(const Cell& cell, std::span<std::byte> into);

// A cell's record, before anything of it is believed.
struct CellRecord {
  Cell::Form form;
  std::uint64_t first = 0;
  std::uint32_t root = 0;
  std::uint32_t layer = 0;
  std::uint64_t changes = 0;
  std::uint64_t removed = 0;
  std::uint64_t items = 0;
  std::uint64_t* lines = nullptr;  // within the bytes
  std::uint64_t entries_end = 0;   // above all entries
  std::vector<Extra> extras;
  std::size_t byte_count = 0;
};
// The record at the begin of the bytes, which are aligned as lines. Checks all that concerns the cell alone,
// also that its lines are what its entries make them. With `entries` the lines themselves are of no use: its
// entries in slots are appended there. Errors: damaged, out_of_memory.
[[nodiscard]] Result<CellRecord> decode_cell(std::span<std::byte> bytes,
                                             std::vector<std::uint64_t>* entries = nullptr);

}  // namespace sepal::cuckoo
