// Zeroed memory for the bits of a value. If they are many, making them takes no time, and they take memory
// only as they are touched. See bitmap.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace sepal::value {

// The pages that a large bitmap begins in. See bitmap.cpp.
enum class Paging : std::uint8_t {
  small,  // filled by requests, and moved to huge pages later
  huge,   // filled in the background
};

// Confined. The owner may share the words.
class Bitmap {
 public:
  // Nothing when the system refuses the memory. `bytes` is at least 8 and a multiple of 8.
  static std::optional<Bitmap> allocate(std::uint64_t bytes, Paging paging);
  // The memory that allocate(bytes) takes.
  static std::uint64_t footprint(std::uint64_t bytes);
  // Whether a bitmap of this length is a mapping of its own, whose pages take memory when they are touched.
  static bool is_mapped(std::uint64_t bytes);

  ~Bitmap();
  Bitmap(Bitmap&& other) noexcept : words_(std::exchange(other.words_, nullptr)), bytes_(other.bytes_) {}
  Bitmap& operator=(Bitmap&&) = delete;

  [[nodiscard]] std::uint64_t* words() const { return words_; }

  // The words without their owner, and back: `bytes` as in allocate().
  [[nodiscard]] std::uint64_t* release() { return std::exchange(words_, nullptr); }
  [[nodiscard]] static Bitmap taken(std::uint64_t* released, std::uint64_t bytes) {
    return {released, bytes};
  }

  // As the members of bloom::LayerView.
  [[nodiscard]] std::uint64_t piece_count() const;
  [[nodiscard]] bool in_use(std::uint64_t piece) const;
  void move_to_huge_page(std::uint64_t piece) const;

 private:
  [[nodiscard]] char* piece_begin(std::uint64_t piece) const;

  Bitmap(std::uint64_t* words, std::uint64_t bytes) : words_(words), bytes_(bytes) {}

  std::uint64_t* words_;  // aligned to a cache line at least
  std::uint64_t bytes_;
};

}  // namespace sepal::value
