// A filter that is there already gets under a key.
#pragma once

#include <sepal/command/dispatcher.hpp>

namespace sepal::command {

// Done and answered at once where a record of the journal has room for the filter or none is kept; else off
// the workers. `adoption.make` is not looked at. For handlers of rows with
// Flag::adopts, as the last thing that they do: need_alone, done or wait.
Next adopt(Context& context, keyspace::FilterPtr filter, Adoption adoption);

// What says +OK, or why not.
void answer_adoption(resp::Reply& reply, const Result<void>& outcome);

}  // namespace sepal::command
