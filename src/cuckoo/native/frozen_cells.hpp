// The cells of a filter while their bytes are copied.
#pragma once

#include <sepal/value/kind_row.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "cuckoo/native/layer.hpp"
#include "cuckoo/native/stills.hpp"

namespace sepal::cuckoo {

class FrozenCells final : public value::Still, public StillCells {
 public:
  // `forgotten`: the filter's.
  FrozenCells(std::shared_ptr<Stills> stills, std::uint64_t forgotten);
  ~FrozenCells() override;
  FrozenCells(const FrozenCells&) = delete;
  FrozenCells& operator=(const FrozenCells&) = delete;

  // Exclusive: layer after layer. A freeze sums up the cells, and notes none of them: it takes little time.
  void add(const Layer& layer);

  [[nodiscard]] std::uint64_t byte_count() const { return byte_count_; }
  [[nodiscard]] std::uint64_t item_count() const { return item_count_; }  // at the freeze
  [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }
  // Copies bytes of all records, one behind the other: by one thread, from the first byte to the last.
  // Outside the gate as well.
  void copy(std::uint64_t offset, std::span<std::byte> to);

  [[nodiscard]] bool wants(const Cell& cell) const override;
  void keep(const Cell& cell, std::shared_ptr<const KeptRecord> record) override;

 private:
  // The cell behind cell_. The reader is outside the gate, so it goes from cell to cell, and by no directory:
  // cells live as long as the filter.
  [[nodiscard]] Cell& next_cell() const;
  void next_record();

  const std::shared_ptr<Stills> stills_;
  const std::uint64_t forgotten_;
  const std::uint64_t number_;
  std::vector<Cell*> firsts_;  // of the layers
  std::uint64_t byte_count_ = 0;
  std::uint64_t item_count_ = 0;

  // The record that is being read: in live_, or kept.
  std::span<const std::byte> record_;
  std::uint64_t record_begin_ = 0;
  std::vector<std::byte> live_;
  std::shared_ptr<const KeptRecord> record_kept_;

  // With the lock of stills_.
  Cell* cell_ = nullptr;  // the last that was read
  std::unordered_map<const Cell*, std::shared_ptr<const KeptRecord>> kept_;
};

}  // namespace sepal::cuckoo
