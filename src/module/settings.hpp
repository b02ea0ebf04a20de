// What filters get that clients create without options: the arguments of `loadmodule`.
#pragma once

#include <sepal/filter/filter.hpp>

#include <optional>
#include <string>

#include "request.hpp"

namespace sepal::module {

struct Settings {
  filter::FilterOptions options{};
  // Nothing: each filter gets a random seed. It is replicated, so all servers have it.
  std::optional<std::uint64_t> seed;
};

// Pairs of a name and a value: ERROR_RATE, INITIAL_SIZE (as in RedisBloom, or CAPACITY), EXPANSION, SEED.
// Names are in any case. Returns a sentence that says what is wrong; empty if nothing is.
[[nodiscard]] std::string read_settings(Words words, Settings& into);

}  // namespace sepal::module
