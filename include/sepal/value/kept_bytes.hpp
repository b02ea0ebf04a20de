// Memory of copies that are under way: bytes of values as they were at an instant (Still, kind_row.hpp).
//
// Readers free it outside the gate, where they can reach no keyspace's account. So the whole process has one
// count, and Keyspace::memory_used() has it in.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace sepal::value {

// A part of the count, as long as the object lives. Confined.
class KeptBytes {
 public:
  KeptBytes() = default;
  explicit KeptBytes(std::uint64_t bytes) { set(bytes); }
  ~KeptBytes() { set(0); }
  KeptBytes(const KeptBytes&) = delete;
  KeptBytes& operator=(const KeptBytes&) = delete;

  void set(std::uint64_t bytes) {
    sum.fetch_add(bytes - std::exchange(bytes_, bytes), std::memory_order_relaxed);
  }
  // The sum over all objects. Any thread.
  [[nodiscard]] static std::uint64_t total() { return sum.load(std::memory_order_relaxed); }

 private:
  static inline std::atomic<std::uint64_t> sum{0};
  std::uint64_t bytes_ = 0;
};

}  // namespace sepal::value
