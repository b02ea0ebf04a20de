// Makes empty filters like those of RedisBloom.
#pragma once

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/foreign/redisbloom.hpp>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <stdexcept>

namespace sepal::test {

struct RedisBloomRequest {
  double error_rate = 0.01;  // of the first layer
  std::uint64_t capacity = 100;
  std::uint64_t expansion = 2;  // 0: it does not scale
};

inline bloom::RedisBloomFilter empty_redisbloom(const RedisBloomRequest& request) {
  const double bits_per_item = bloom::textbook_bits_per_item(request.error_rate);
  const auto bits = static_cast<std::uint64_t>(static_cast<double>(request.capacity) * bits_per_item);
  const std::uint64_t words = std::max<std::uint64_t>((bits + 63) / 64, 1);
  return {.item_count = 0,
          .options = request.expansion == 0 ? 13u : 5u,
          .expansion = request.expansion,
          .layers = {{.byte_count = words * 8,
                      .bit_count = words * 64,
                      .item_count = 0,
                      .error_rate = request.error_rate,
                      .bits_per_item = bits_per_item,
                      .probe_count = static_cast<std::uint64_t>(std::ceil(std::numbers::ln2 * bits_per_item)),
                      .capacity = request.capacity,
                      .size_exponent = 0}}};
}

inline bloom::FilterPtr redisbloom_filter(const RedisBloomRequest& request) {
  const auto image = bloom::image_of(empty_redisbloom(request));
  if (!image) throw std::runtime_error(image.error().detail);
  const auto filter = bloom::Filter::restore(image->options, image->layers,
                                             {.bytes_max = std::uint64_t{1} << 40, .layers_max = 64});
  if (!filter) throw std::runtime_error(filter.error().detail);
  return *filter;
}

}  // namespace sepal::test
