// Look-ups of items in a Bloom filter, with what is counted about them.
#pragma once

#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/command/run/dispatcher.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "command/keys/lookup.hpp"
#include "command/keys/missing.hpp"

namespace sepal::command {

// Counts eight bytes of 0 or 1 at a time: the multiplication adds them up in the highest byte.
[[nodiscard]] inline std::size_t count_true(std::span<const bool> values) {
  static_assert(sizeof(bool) == 1);
  std::size_t count = 0;
  for (; values.size() >= 8; values = values.subspan(8)) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, values.data(), sizeof bytes);
    count += static_cast<std::size_t>((bytes * 0x0101'0101'0101'0101U) >> 56);
  }
  return count + static_cast<std::size_t>(std::ranges::count(values, true));
}

// Counts what was asked of a Bloom filter.
inline void count_asked(Context& context, const bloom::Filter& filter, std::size_t asked, std::size_t found) {
  context.stats.items_asked.add(asked);
  context.stats.items_found.add(found);
  if (bloom::Usage* const usage = filter.usage()) [[unlikely]]
    usage->slot(context.dispatcher.worker()).count_asked(asked, found);
}

// A look-up in what is no plain Bloom filter: a filter that forgets, another value, or none.
[[nodiscard]] inline bool look_up_in_other(Context& context, const value::Value* found,
                                           std::span<const std::string_view> items, std::span<bool> present,
                                           std::uint64_t requests) {
  const auto* const window = value::as<bloom::WindowFilter>(found);
  if (window == nullptr) return answer_missing(context, found, present, requests);
  count_key(context, true, requests);
  window->contains(items, context.now, present);
  context.stats.items_asked.add(items.size());
  context.stats.items_found.add(count_true(present));
  return true;
}

// Looks the items up in what the key of the request names, for one request or for several that have one item
// each. False: each of them answers an error (answer_missing).
[[nodiscard]] inline bool look_up_in(Context& context, const value::Value* found,
                                     std::span<const std::string_view> items, std::span<bool> present,
                                     std::uint64_t requests = 1) {
  const auto* const filter = value::as<bloom::Filter>(found);
  if (filter == nullptr) return look_up_in_other(context, found, items, present, requests);
  count_key(context, true, requests);
  filter->contains(items, present);
  // Most requests have one item, and a loop would cost them more than they can pay.
  count_asked(context, *filter, items.size(),
              present.size() == 1 ? static_cast<std::size_t>(present[0]) : count_true(present));
  return true;
}

[[nodiscard]] inline bool look_up(Context& context, std::span<const std::string_view> items,
                                  std::span<bool> present, std::uint64_t requests = 1) {
  return look_up_in(context, find(context, context.words[1]), items, present, requests);
}

}  // namespace sepal::command
