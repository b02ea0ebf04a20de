#include <sepal/bloom/commands/filter_facts.hpp>
#include <sepal/value/image.hpp>

namespace sepal::bloom {

FilterFacts facts_of(const bloom::Filter& filter, SteadyTime now) {
  FilterFacts facts{.options = filter.options(),
                    .capacity = filter.capacity(),
                    .item_count = filter.item_count(),
                    .byte_count = filter.byte_count(),
                    .saved_bytes = value::image_bytes(filter),
                    .layers = filter.layers(),
                    .usage = std::nullopt};
  if (const bloom::Usage* const usage = filter.usage()) facts.usage = usage->sums(now);
  return facts;
}

std::optional<double> FilterFacts::seconds_until_full() const {
  if (item_count >= capacity) return 0;
  // Without adds there is no end in sight, and a small filter has no usage at all.
  if (!usage || usage->added_per_second <= 0) return std::nullopt;
  return static_cast<double>(capacity - item_count) / usage->added_per_second;
}

}  // namespace sepal::bloom
