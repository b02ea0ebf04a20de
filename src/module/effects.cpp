#include "effects.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/filter/image.hpp>

#include <algorithm>
#include <vector>

namespace sepal::module {

void Effects::shape(const filter::Filter& filter) {
  filter::ImageHeader header = filter::header_of(filter);
  for (filter::Filter::LayerState& layer : header.layers) layer.item_count = 0;
  const std::vector<std::byte> bytes = filter::encode(header);
  api.Replicate(request_.context, "BF.SHAPE", "sb", request_.key(),
                reinterpret_cast<const char*>(bytes.data()), bytes.size());
  any_ = true;
}

void Effects::items(std::size_t first, std::span<const bool> added) {
  const auto count = static_cast<std::size_t>(std::ranges::count(added, true));
  if (count == 0) return;
  const std::span<RedisModuleString*> words = request_.arguments.subspan(first, added.size());
  // An add that does nothing but add all of its items, and creates nothing where it is repeated.
  const bool is_whole =
      !any_ && count == added.size() && first == 2 && first + count == request_.arguments.size() &&
      (equal_ignoring_case(request_.words[0], "BF.ADD") || equal_ignoring_case(request_.words[0], "BF.MADD"));
  if (is_whole) return request();
  std::vector<RedisModuleString*> items;
  items.reserve(count);
  for (std::size_t i = 0; i < words.size(); ++i)
    if (added[i]) items.push_back(words[i]);
  api.Replicate(request_.context, "BF.MADD", "sv", request_.key(), items.data(), items.size());
  any_ = true;
}

void Effects::request() {
  api.ReplicateVerbatim(request_.context);
  any_ = true;
}

void Effects::deadline(std::int64_t milliseconds) {
  api.Replicate(request_.context, "PEXPIREAT", "sl", request_.key(), static_cast<long long>(milliseconds));
  any_ = true;
}

void Effects::end() {
  if (any_) api.SignalModifiedKey(request_.context, request_.key());
}

}  // namespace sepal::module
