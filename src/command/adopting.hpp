// Puts a filter that was made as a whole under a key.
#pragma once

#include <sepal/command/dispatcher.hpp>

namespace sepal::command {

// Done and answered at once if one record of the journal has room for the filter, or if no journal is kept;
// else a job outside the workers does it. `adoption.make` is ignored. For handlers of rows with Flag::adopts,
// as the last thing that they do. Returns need_alone, done or wait.
Next adopt(Context& context, keyspace::FilterPtr filter, Adoption adoption);

// Answers +OK, or the reason why the filter is not under its key.
void answer_adoption(resp::Reply& reply, const Result<void>& outcome);

}  // namespace sepal::command
