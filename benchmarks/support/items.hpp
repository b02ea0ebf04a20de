// Items for benchmarks inside a process: 16 bytes each, made with one store where they are used. So a
// benchmark measures neither the making of items nor their memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace bench {

inline constexpr std::size_t item_bytes = 16;

// A window of items: `count` views whose bytes change with each call. Confined.
class ItemWindow {
 public:
  explicit ItemWindow(std::size_t count) : bytes_(count), views_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(bytes_[i].data(), "item of a bench:", item_bytes);
      views_[i] = {bytes_[i].data(), item_bytes};
    }
  }
  ItemWindow(const ItemWindow&) = delete;
  ItemWindow& operator=(const ItemWindow&) = delete;

  // The items with the numbers `first`, `first` + 1, ...
  std::span<const std::string_view> from(std::uint64_t first) {
    for (auto& item : bytes_) put(item, first++);
    return views_;
  }

  // Items with numbers below `range` (at most 2^32), evenly distributed and in no order. Increments `draw`.
  std::span<const std::string_view> drawn(std::uint64_t& draw, std::uint64_t range) {
    for (auto& item : bytes_) {
      const std::uint64_t scattered = (++draw * 0x9E3779B97F4A7C15ull) >> 32;
      put(item, (scattered * range) >> 32);
    }
    return views_;
  }

  [[nodiscard]] std::size_t size() const { return views_.size(); }

 private:
  using Item = std::array<char, item_bytes>;

  static void put(Item& item, std::uint64_t number) {
    std::memcpy(item.data() + item_bytes - sizeof number, &number, sizeof number);
  }

  std::vector<Item> bytes_;
  std::vector<std::string_view> views_;
};

// Room for the answers of a window. A std::vector<bool> cannot give a span of bool.
template <std::size_t count_max>
class Answers {
 public:
  std::span<bool> first(std::size_t count) { return std::span<bool>(values_).first(count); }

 private:
  std::array<bool, count_max> values_{};
};

}  // namespace bench
