// The BF commands on a filter that forgets, and BF.WINDOWSHAPE and BF.WINDOWADD, which replicas and the AOF
// have.
#pragma once

#include <sepal/bloom/window/window_filter.hpp>

#include <cstddef>

#include "module/effects.hpp"
#include "module/request.hpp"

namespace sepal::module {

// The server's time, which says what is forgotten.
[[nodiscard]] WallTime now_of_server();

// A new filter under the key, which is free and open to be written. Null: the reply says why.
bloom::WindowFilter* create_window(Request& request, Key& key, const bloom::WindowOptions& options,
                                   Effects& effects);
// Adds the words of the request from `first_item` on, and answers. `single`: one answer, and no array.
void add_to_window(Request& request, bloom::WindowFilter& filter, std::size_t first_item, bool single,
                   Effects& effects);
void debug_window(Request& request, const bloom::WindowFilter& filter);

void bf_window(Request& request);

// BF.WINDOWSHAPE key record: makes a filter without items, or gives the filter a further layer. The record is
// that of sepald's journal (bloom/kind/window_kind.hpp).
void bf_window_shape(Request& request);
// BF.WINDOWADD key entries: adds what the master has added, in the generations in which it did
// (bloom/window/window_filter.hpp).
void bf_window_add(Request& request);

}  // namespace sepal::module
