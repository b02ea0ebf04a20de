// What the BF commands do with a key that names another value than a Bloom filter: a filter that forgets, or
// none at all.
#pragma once

#include <sepal/bloom/commands/options.hpp>
#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/writers/window_writer.hpp>

#include <span>
#include <string_view>

#include "command/bloom/add_answers.hpp"

namespace sepal::command {

// An add, to a value of another kind than a Bloom filter.
Next add_to_other(Context& context, value::Value& found, std::span<const std::string_view> items,
                  AddShape shape);
// The same for items of several requests that come together; null: the key is free.
Next add_together_to_other(Context& context, value::Value* found, std::span<const std::string_view> items,
                           std::span<bool> added);
// BF.RESERVE with a window; the key is free.
Next make_window(Context& context, writers::WindowCreation creation);
// BF.INSERT with a window. A filter that it creates has the deadline.
Next insert_into_window(Context& context, const bloom::InsertRequest& request, keyspace::Deadline deadline);
// BF.DEBUG.
Next answer_debug(Context& context, const bloom::WindowFilter& filter);

}  // namespace sepal::command
