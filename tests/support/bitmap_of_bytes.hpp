// A client's bitmap as the bytes of its string.
#pragma once

#include <sepal/bloom/foreign/client_bitmap.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace sepal::test {

class BitmapOfBytes final : public bloom::BitmapString {
 public:
  explicit BitmapOfBytes(std::string bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] std::uint64_t length() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> to) const override {
    std::ranges::copy(std::as_bytes(std::span(bytes_)).subspan(offset, to.size()), to.begin());
  }
  [[nodiscard]] bool has_bit_from(std::uint64_t position) const override {
    for (std::uint64_t at = position; at < 8 * bytes_.size(); ++at)
      if ((static_cast<unsigned char>(bytes_[at / 8]) >> (7 - at % 8) & 1) != 0) return true;
    return false;
  }

 private:
  std::string bytes_;
};

}  // namespace sepal::test
