// What filters get that clients create without options, and what look-ups answer without one: the arguments
// of `loadmodule`, and parameters of CONFIG.
#pragma once

#include <sepal/bloom/commands/missing_filter.hpp>
#include <sepal/bloom/filter/filter.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "module/request.hpp"

namespace sepal::module {

struct Settings {
  bloom::FilterOptions options{};
  // Nothing: each filter gets a random seed. It is replicated, so all servers have it.
  std::optional<std::uint64_t> seed;
  bloom::MissingFilter missing_filter = bloom::MissingFilter::absent;
};

// The seed of a filter that is created now.
[[nodiscard]] std::uint64_t seed_of_new(const Settings& settings);

// Pairs of a name and a value: ERROR_RATE, INITIAL_SIZE (as in RedisBloom, or CAPACITY), EXPANSION, SEED,
// MISSING_FILTER.
// Names are in any case. Returns a sentence that says what is wrong; empty if nothing is.
[[nodiscard]] std::string read_settings(Words words, Settings& into);

// While the module is loaded: CONFIG GET and SET of the server have the settings, as bf.error-rate,
// bf.initial-size, bf.expansion-factor, bf.seed and bf.missing-filter, and the server's configuration file
// may have them. `settings` are their values until then; it lives as long as the server. Does nothing on a
// server before Redis 7.0. False: the server has refused one, and its log says why.
[[nodiscard]] bool offer_settings(RedisModuleCtx* context, Settings& settings);

}  // namespace sepal::module
