// What BF.STATS answers about a filter, in every host of the commands.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/bloom/commands/filter_facts.hpp>
#include <sepal/bloom/window/window_filter.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sepal::bloom {

struct StatsField;
using StatsMap = std::vector<StatsField>;

// Nothing stands for what a host does not know.
using StatsValue =
    std::variant<std::monostate, bool, std::uint64_t, double, std::string, StatsMap, std::vector<StatsMap>>;

struct StatsField {
  std::string_view name;
  StatsValue value;
};

// What a host knows beside the filter itself.
struct StatsOfHost {
  struct Mirror {
    std::string target;
    std::uint64_t items = 0;
    bool whole = true;
  };
  std::optional<std::uint64_t> last_change{};  // seconds since 1970
  std::optional<std::uint64_t> last_save{};
  std::optional<Mirror> mirror{};  // of which the filter is the source
};

// The fields in the order of the reply. Reads at most bloom::measured_bytes_max of the bits. The caller
// holds a reference to the filter.
[[nodiscard]] StatsMap stats_of(const FilterFacts& facts, const StatsOfHost& host);

// What BF.WINDOW and BF.STATS answer about a filter that forgets.
[[nodiscard]] StatsMap stats_of(const WindowFilter& filter, WallTime now);

// Writes the fields with the functions of a host's reply: map, array, boolean, bulk, null, real,
// integer_unsigned.
template <class Reply>
void append_stats(Reply& reply, const StatsMap& fields);

template <class Reply>
void append_stats_value(Reply& reply, const StatsValue& value) {
  if (const auto* const count = std::get_if<std::uint64_t>(&value)) {
    reply.integer_unsigned(*count);
  } else if (const auto* const truth = std::get_if<bool>(&value)) {
    reply.boolean(*truth);
  } else if (const auto* const real = std::get_if<double>(&value)) {
    reply.real(*real);
  } else if (const auto* const text = std::get_if<std::string>(&value)) {
    reply.bulk(*text);
  } else if (const auto* const map = std::get_if<StatsMap>(&value)) {
    append_stats(reply, *map);
  } else if (const auto* const maps = std::get_if<std::vector<StatsMap>>(&value)) {
    reply.array(maps->size());
    for (const StatsMap& each : *maps) append_stats(reply, each);
  } else {
    reply.null();
  }
}

template <class Reply>
void append_stats(Reply& reply, const StatsMap& fields) {
  reply.map(fields.size());
  for (const StatsField& field : fields) {
    reply.bulk(field.name);
    append_stats_value(reply, field.value);
  }
}

}  // namespace sepal::bloom
