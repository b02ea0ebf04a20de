// What the CF commands answer, in every host of the commands. A Reply is the host's: it has the functions
// array, map, boolean, integer, integer_unsigned, real, simple, bulk, error and is_resp3.
#pragma once

#include <sepal/cuckoo/commands/found.hpp>
#include <sepal/cuckoo/commands/options.hpp>
#include <sepal/value/figures.hpp>
#include <sepal/value/kind_row.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sepal::cuckoo {

// --- adds -------------------------------------------------------------------------------------------------

// How the outcomes of adds are answered.
enum class AddAnswer : std::uint8_t {
  single,  // CF.ADD, CF.ADDNX: a boolean, or an error
  flags,   // CF.INSERT: 1 or -1; in RESP3 a boolean
  numbers  // CF.INSERTNX: 1, 0 or -1
};

template <class Reply>
void append_outcome(Reply& reply, const Filter::AddOutcome& outcome, AddAnswer answer) {
  const bool refused = outcome.refusal != Refusal::none;
  if (answer == AddAnswer::numbers) {
    reply.integer(refused ? -1 : outcome.added ? 1 : 0);
  } else if (!refused) {
    reply.boolean(outcome.added);
  } else if (answer == AddAnswer::single) {
    reply.error(outcome.refusal == Refusal::full ? text::full : text::no_memory);
  } else if (reply.is_resp3()) {
    reply.boolean(false);
  } else {
    reply.integer(-1);
  }
}

// --- CF.INFO, CF.DEBUG ------------------------------------------------------------------------------------

struct Told {
  std::uint64_t bytes = 0;
  std::uint64_t buckets = 0;
  std::uint64_t layers = 0;
  std::uint64_t items = 0;
  std::uint64_t removed = 0;
  std::uint64_t bucket_size = 0;
  std::uint64_t expansion = 0;
  std::uint64_t iteration_max = 0;
};
// `found` has a filter.
[[nodiscard]] Told told_of(const Found& found);

struct InfoField {
  std::string_view name;
  std::uint64_t Told::*value;
};
// Those of the reference, and no other: clients fail on a name that they do not know.
inline constexpr InfoField info_fields[] = {
    {"Size", &Told::bytes},
    {"Number of buckets", &Told::buckets},
    {"Number of filters", &Told::layers},
    {"Number of items inserted", &Told::items},
    {"Number of items deleted", &Told::removed},
    {"Bucket size", &Told::bucket_size},
    {"Expansion rate", &Told::expansion},
    {"Max iterations", &Told::iteration_max},
};

template <class Reply>
void append_info(Reply& reply, const Told& told) {
  reply.map(std::size(info_fields));
  for (const InfoField& field : info_fields) {
    reply.simple(field.name);
    reply.integer_unsigned(told.*field.value);
  }
}

// What CF.DEBUG answers.
[[nodiscard]] std::string debug_line(const Told& told);

// --- CF.STATS ---------------------------------------------------------------------------------------------

template <class Reply>
void append_figures(Reply& reply, const std::vector<value::Figure>& figures) {
  for (const value::Figure& figure : figures) {
    reply.simple(figure.name);
    if (const auto* number = std::get_if<std::uint64_t>(&figure.value)) reply.integer_unsigned(*number);
    if (const auto* real = std::get_if<double>(&figure.value)) reply.real(*real);
    if (const auto* word = std::get_if<std::string_view>(&figure.value)) reply.bulk(*word);
  }
}

template <class Reply>
void append_stats(Reply& reply, const value::Value& filter) {
  const value::KindRow& row = value::row_of(filter);
  value::Figures figures;
  row.tell(filter, figures);
  std::erase_if(figures.figures, [](const value::Figure& figure) {
    return std::holds_alternative<value::Seed>(figure.value);
  });
  figures.number("memory_bytes", row.byte_count(filter));
  reply.map(figures.figures.size() + 1);
  append_figures(reply, figures.figures);
  reply.simple("layers");
  reply.array(figures.parts.size());
  for (const auto& layer : figures.parts) {
    reply.map(layer.size());
    append_figures(reply, layer);
  }
}

}  // namespace sepal::cuckoo
