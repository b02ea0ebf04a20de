// What a filter that forgets remembers, as clients know it from the replies.
#pragma once

#include <sepal/bloom/window/window_filter.hpp>

#include <cstdint>
#include <map>

namespace sepal::test {

// Each filter has a clock of its own: milliseconds, or the number of new items where it keeps the last ones.
struct WindowModel {
  std::uint64_t clock = 0;
  std::uint64_t length = 0;                       // of the window, by this clock
  std::map<std::uint32_t, std::uint64_t> told{};  // numbers of items, and when they were told to be new
  std::uint64_t count = 0;                        // items of live generations
};

// The model of a filter of which no reply is known.
WindowModel window_model_of(const bloom::WindowFilter& filter);
// Whether the filter remembers what the model says. If `next` is not null, a part of the adds that make it
// `next` may be there too.
bool is_like(const bloom::WindowFilter& filter, const WindowModel& model, const WindowModel* next);

}  // namespace sepal::test
