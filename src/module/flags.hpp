// Flags for the items of a request.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace sepal::module {

// They begin as false. Those of a request with few items need no allocation. Throws bad_alloc.
class Flags {
 public:
  explicit Flags(std::size_t count)
      : many_(count > few ? std::make_unique<bool[]>(count) : nullptr),
        all_(many_ != nullptr ? many_.get() : place_.data(), count) {}
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  [[nodiscard]] std::span<bool> all() { return all_; }

 private:
  static constexpr std::size_t few = 64;

  std::array<bool, few> place_{};
  std::unique_ptr<bool[]> many_;
  std::span<bool> all_;
};

}  // namespace sepal::module
