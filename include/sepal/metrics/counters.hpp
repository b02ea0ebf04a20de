// Counters and histograms of one worker. Only that worker writes them; any thread reads them.
//
// A worker's cells are relaxed atomics on cache lines that no other worker writes, so counting costs a plain
// add. A reader sums over the workers; the sum is approximate while they count.
#pragma once

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sepal::metrics {

// One writer, any readers.
class Counter {
 public:
  void add(std::uint64_t amount = 1) { value_.store(get() + amount, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }
  // By the writer, or by another thread while the writer stands still (gate closed).
  void reset() { value_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// The greatest of the last `slot_count` values. One writer, any readers.
class RecentPeak {
 public:
  static constexpr std::size_t slot_count = 8;

  void add(std::uint64_t value) {
    slots_[next_].store(value, std::memory_order_relaxed);
    next_ = (next_ + 1) % slot_count;
  }
  [[nodiscard]] std::uint64_t get() const {
    std::uint64_t peak = 0;
    for (const auto& slot : slots_) peak = std::max(peak, slot.load(std::memory_order_relaxed));
    return peak;
  }

 private:
  std::array<std::atomic<std::uint64_t>, slot_count> slots_{};
  std::size_t next_ = 0;  // the writer's own
};

// Durations in nanoseconds. Each power of two has four buckets, so an answer is at most 25% too high.
class Histogram {
 public:
  static constexpr std::size_t bucket_count = 4 * 40;

  void add(std::uint64_t nanoseconds, std::uint64_t times = 1) {
    buckets_[bucket_of(nanoseconds)].add(times);
  }
  [[nodiscard]] std::uint64_t count(std::size_t bucket) const {
    SEPAL_ASSERT(bucket < bucket_count, "a bucket that the histogram does not have");
    return buckets_[bucket].get();
  }
  void reset() {
    for (Counter& bucket : buckets_) bucket.reset();
  }

  // The largest value that falls into a bucket.
  [[nodiscard]] static std::uint64_t upper_bound(std::size_t bucket) {
    if (bucket < 8) return bucket;
    const std::size_t exponent = bucket / 4;
    const std::uint64_t quarter = bucket % 4;
    return ((4 + quarter + 1) << (exponent - 1)) - 1;
  }
  [[nodiscard]] static std::size_t bucket_of(std::uint64_t value) {
    if (value < 8) return static_cast<std::size_t>(value);
    const auto exponent = static_cast<std::size_t>(std::bit_width(value)) - 2;
    const std::size_t bucket = 4 * exponent + ((value >> (exponent - 1)) & 3);
    return bucket < bucket_count ? bucket : bucket_count - 1;
  }

 private:
  std::array<Counter, bucket_count> buckets_;
};

}  // namespace sepal::metrics
