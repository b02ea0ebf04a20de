// The cells of a filter while their bytes are copied.
#pragma once

#include <sepal/value/kind_row.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuckoo/native/cell.hpp"
#include "cuckoo/native/stills.hpp"

namespace sepal::cuckoo {

class FrozenCells final : public value::Still, public StillCells {
 public:
  explicit FrozenCells(std::shared_ptr<Stills> stills);
  ~FrozenCells() override;
  FrozenCells(const FrozenCells&) = delete;
  FrozenCells& operator=(const FrozenCells&) = delete;

  // Exclusive: cell after cell, in the order of the image.
  void add(Cell& cell, std::uint32_t layer);

  [[nodiscard]] std::uint64_t byte_count() const { return byte_count_; }
  [[nodiscard]] std::uint64_t item_count() const { return item_count_; }  // at the freeze
  // Copies bytes of all records, one behind the other: by one thread, from the first byte to the last.
  // Outside the gate as well.
  void copy(std::uint64_t offset, std::span<std::byte> to);

  void keep(const Cell& cell) override;

 private:
  struct Frozen {
    Cell* cell;
    std::uint32_t layer;
    std::uint64_t begin;
    std::size_t byte_count;
    bool had = false;               // copied, or kept
    std::vector<std::byte> kept{};  // what the cell was before it changed its length
  };
  [[nodiscard]] std::span<const std::byte> record_of(Frozen& frozen);

  const std::shared_ptr<Stills> stills_;
  std::vector<Frozen> cells_;
  std::uint64_t byte_count_ = 0;
  std::uint64_t item_count_ = 0;
  const Frozen* current_ = nullptr;
  std::vector<std::byte> record_;  // of current_
};

}  // namespace sepal::cuckoo
