// The pieces in which a filter leaves a server, and comes to another one: CF.SCANDUMP and CF.LOADCHUNK.
//
//     header    "SPCH" | version 2 | zeros 2 | plan 56 | checksum 8
//     cells     "SPCC" | version 2 | zeros 58 | records of cells, as in the image | checksum 8
//
// A place in a filter is a layer, a root and a fraction. Cells are split, and never joined; their entries
// stay in their layer. So a client that asks for the cells behind a place, and goes on behind them, gets each
// entry that stays once, whatever changes meanwhile. The server keeps nothing between two pieces. Each cell
// is copied at one instant, and different cells at different instants.
//
// A piece is loaded as adds: its entries come to the cells that have their places, with records of their own.
// A piece that comes a second time is refused, because it would count its entries twice. A load has steps, so
// that no client waits for all of it: the piece is read, then each entry is looked up, then all are added.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/cuckoo/native/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sepal::cuckoo {

// A piece has whole cells, and one at least, so it may be longer by the head and the counts of a cell.
inline constexpr std::size_t piece_bytes_max = std::size_t{64} << 10;
// The copies in a piece. A filter that has more copies of one item goes by DUMP and RESTORE.
inline constexpr std::uint64_t piece_copies_max = std::uint64_t{1} << 18;
// A step of a load looks up so many entries, or adds so many copies.
inline constexpr std::size_t piece_step_max = 1024;

struct CellsPiece {
  std::string bytes;
  std::uint64_t next = 0;  // the place behind its cells, below 2^63 - 1
};

[[nodiscard]] std::string header_piece(const Plan& plan);
[[nodiscard]] bool begins_header_piece(std::span<const std::byte> bytes);
[[nodiscard]] bool begins_cells_piece(std::span<const std::byte> bytes);
// Errors: damaged, unsupported_version.
Result<Plan> decode_header_piece(std::span<const std::byte> bytes);

// What became of a step. What is refused as damaged, there or too_many_copies has changed nothing.
enum class PieceOutcome : std::uint8_t {
  more,  // there are further steps
  loaded,
  gone,             // the piece was read for another filter
  losing_key,       // the recorder refuses (value::AddRecorder::begin): the step has done nothing
  damaged,          // no piece, or none of a filter with this plan
  there,            // the filter has an item that it cannot tell from one of the piece
  too_many_copies,  // above piece_copies_max
  full,             // a part of it may be loaded; as no_memory
  no_memory,
};

class Filter;

// A piece of cells on its way into a filter, which may change, or end, between two steps. Confined.
class PieceLoad {
 public:
  explicit PieceLoad(const Filter& to);
  ~PieceLoad();
  PieceLoad(const PieceLoad&) = delete;
  PieceLoad& operator=(const PieceLoad&) = delete;

  // The first step; Filter::load_some() makes the others. Returns more, loaded, damaged or too_many_copies.
  // Throws bad_alloc.
  [[nodiscard]] PieceOutcome read(std::span<const std::byte> piece);
  [[nodiscard]] bool is_for(const Filter& filter) const;
  [[nodiscard]] std::uint64_t added_count() const;  // copies
  [[nodiscard]] std::uint64_t byte_count() const;   // beside the object itself

 private:
  friend class Filter;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sepal::cuckoo
