#include "module/effects.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/bloom/filter/image.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace sepal::module {

void Effects::shape(const bloom::Filter& filter) noexcept {
  bloom::ImageHeader header = bloom::header_of(filter);
  // A shape is told without items: the adds are told by themselves, and a replica counts them as it adds.
  for (bloom::Filter::LayerState& layer : header.layers) layer.item_count = 0;
  const std::vector<std::byte> bytes = bloom::encode(header);
  api.Replicate(request_.context, "BF.SHAPE", "sb", request_.key(),
                reinterpret_cast<const char*>(bytes.data()), bytes.size());
  any_ = true;
}

void Effects::items(std::size_t first, std::span<const bool> added) noexcept {
  const auto count = static_cast<std::size_t>(std::ranges::count(added, true));
  if (count == 0) return;
  const std::span<RedisModuleString*> words = request_.arguments.subspan(first, added.size());
  // Such a request is its own effect, so it is told as it stands: all of its items were new, and the filter
  // was there and did not grow.
  const bool is_whole =
      !any_ && count == added.size() && first == 2 && first + count == request_.arguments.size() &&
      (equal_ignoring_case(request_.words[0], "BF.ADD") || equal_ignoring_case(request_.words[0], "BF.MADD"));
  if (is_whole) return request();
  std::array<RedisModuleString*, few_items> place;
  if (count > few_items) items_.resize(count);
  RedisModuleString** const told = count > few_items ? items_.data() : place.data();
  std::size_t next = 0;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (added[i]) told[next++] = words[i];
  api.Replicate(request_.context, "BF.MADD", "sv", request_.key(), told, count);
  any_ = true;
}

void Effects::request() noexcept {
  api.ReplicateVerbatim(request_.context);
  any_ = true;
}

void Effects::deadline(std::int64_t milliseconds) noexcept {
  api.Replicate(request_.context, "PEXPIREAT", "sl", request_.key(), static_cast<long long>(milliseconds));
  any_ = true;
}

void Effects::end() noexcept {
  // A request without an effect must not end a transaction of a client that watches the key.
  if (any_) api.SignalModifiedKey(request_.context, request_.key());
}

}  // namespace sepal::module
