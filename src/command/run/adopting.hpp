// Puts a filter that was made as a whole under a key.
#pragma once

#include <sepal/command/run/adoptions.hpp>
#include <sepal/command/run/context.hpp>

#include <cstdint>
#include <functional>
#include <string_view>

namespace sepal::command {

// A longer string is put under its key by a job outside the workers, so that no client waits for it. It is
// not taken in a transaction or a script. A longer string that is answered leaves in parts.
inline constexpr std::uint64_t string_at_once_max = std::uint64_t{1} << 20;

// Done and answered at once if one record of the journal has room for the filter, or if no journal is kept;
// else a job outside the workers does it. `adoption.make` is ignored. For handlers of rows with
// records_adoption, as the last thing that they do. Returns need_alone, done or wait.
Next adopt(Context& context, value::ValuePtr value, Adoption adoption);

// Copies one more part of bytes that a job needs: it outlives the request's words. False: there is more, and
// the handler answers Next::more. In the end context.partial->bytes has all of them.
bool copied_whole(Context& context, std::string_view bytes);

// For Adoption::still_wanted of a filter or string that is made from keys of this database. False once the
// database was flushed or swapped: a client may have the answer to that already, and no order of the two
// requests would leave the result where it would be put.
[[nodiscard]] std::function<bool()> contents_stay(const Context& context, std::uint32_t database);

// Answers +OK, or the reason why the filter is not under its key.
void answer_adoption(resp::Reply& reply, const Result<void>& outcome);

}  // namespace sepal::command
