#include <sepal/cuckoo/foreign/redis_measure.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace sepal::cuckoo {
namespace {

// A fingerprint is one of so many numbers.
constexpr double fingerprints = 255;
// An item looks into two buckets.
constexpr double buckets_of_item = 2;
// So many slots are read at least of a layer that has them.
constexpr std::uint64_t sample_min = 64;

double share_taken(std::span<const std::byte> slots) {
  if (slots.empty()) return 0;
  const auto empty = static_cast<std::uint64_t>(std::ranges::count(slots, std::byte{0}));
  return static_cast<double>(slots.size() - empty) / static_cast<double>(slots.size());
}

}  // namespace

RedisMeasure measure(const RedisTable& table, std::uint64_t bytes_max) {
  const RedisHeader& header = table.header();
  const std::uint64_t share = std::max(sample_min, bytes_max / header.layer_count);
  const double slots_looked_at = buckets_of_item * header.bucket_slots;
  RedisMeasure measured;
  measured.fills.reserve(header.layer_count);
  double taken = 0;
  double right = 1;  // the probability that no layer has the fingerprint of an absent item
  for (std::uint32_t layer = 0; layer < header.layer_count; ++layer) {
    const auto slots = table.slots(layer);
    const double fill = share_taken(slots.first(std::min<std::uint64_t>(share, slots.size())));
    measured.fills.push_back(fill);
    taken += fill * static_cast<double>(slots.size());
    right *= std::pow(1 - fill / fingerprints, slots_looked_at);
  }
  measured.fill = taken / static_cast<double>(header.slot_count());
  measured.false_positive_rate = 1 - right;
  return measured;
}

}  // namespace sepal::cuckoo
