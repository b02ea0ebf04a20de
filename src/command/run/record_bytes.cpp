// The most bytes that requests record, for the kinds of requests that several families have. The arity of
// each row sees to it that the key, words[1], is there.
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/writers/bloom_writer.hpp>
#include <sepal/writers/string_writer.hpp>

#include <algorithm>
#include <limits>

#include "command/run/adopting.hpp"
#include "command/table/command_row.hpp"

namespace sepal::command {
namespace {

std::size_t bytes_of_key(std::string_view word) {
  return std::min(word.size(), keyspace::key_bytes_max);
}

}  // namespace

std::uint64_t records_items(const RecordAsk& ask) {
  const std::size_t key_bytes = bytes_of_key(ask.words[1]);
  return ask.layers_max == 0 ? writers::record_bytes_of_adds(key_bytes, ask.item_count)
                             : writers::record_bytes_of_adds_alone(key_bytes, ask.item_count, ask.layers_max);
}

// With the gate closed: expired keys may be removed, in two databases by COPY, before the filter is adopted.
std::uint64_t records_adoption(const RecordAsk& ask) {
  const std::uint64_t of_keys = keyspace::record_bytes_of_keys(ask.words.subspan(1));
  return ask.alone ? of_keys + keyspace::record_bytes_of_adoption(keyspace::key_bytes_max) : of_keys;
}

// Under the shared gate: nothing. With the gate closed, a part writes string_at_once_max bytes at most, or a
// job puts a longer string, and asks for its own room.
std::uint64_t records_string(const RecordAsk& ask) {
  if (!ask.alone) return 0;
  const std::uint64_t value_bytes_max =
      ask.in_transaction ? std::numeric_limits<std::uint64_t>::max() : string_at_once_max;
  std::uint64_t bytes = 0;
  for (const std::string_view word : ask.words.subspan(2))
    bytes += std::min<std::uint64_t>(word.size(), value_bytes_max);
  const std::size_t key_bytes = bytes_of_key(ask.words[1]);
  return ask.words.size() * (keyspace::record_bytes_max + key_bytes) +
         writers::record_bytes_of_string(key_bytes, bytes);
}

std::uint64_t records_strings(const RecordAsk& ask) {
  if (!ask.alone) return 0;
  std::uint64_t bytes = 0;
  for (std::size_t at = 1; at + 1 < ask.words.size(); at += 2)
    bytes += writers::record_bytes_of_string(bytes_of_key(ask.words[at]), ask.words[at + 1].size());
  return bytes;
}

}  // namespace sepal::command
