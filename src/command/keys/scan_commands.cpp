// KEYS and SCAN. Both visit keys in parts of part_items_max, and other clients run between the parts. A part
// also ends where a long pattern and a long key take too much time; the next part goes on there. The
// keyspace's cursor makes sure that a key that stays is visited exactly once, whatever comes and goes
// meanwhile.
//
// SCAN parses its options once, before its first part. The PartialRun keeps the indexes of words, and no
// views of them: the bytes of the request may move between two parts.

#include <sepal/base/arguments.hpp>
#include <sepal/base/glob.hpp>
#include <sepal/base/parsed.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "command/keys/lookup.hpp"
#include "command/keys/type_name.hpp"
#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

constexpr std::uint64_t scan_count_default = 10;
// A part of KEYS or SCAN reads about so many bytes of its pattern, as often as it reads them: within a
// millisecond.
constexpr std::size_t part_pattern_bytes = 256 * 1024;
constexpr std::uint64_t all_keys = std::numeric_limits<std::uint64_t>::max();

// Takes leading spaces and leading zeros, as the reference does. A number beyond 64 bits is not a cursor.
std::optional<std::uint64_t> parse_cursor(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
  if (word.empty()) return std::nullopt;
  word.remove_prefix(std::min(word.find_first_not_of('0'), word.size() - 1));
  return parse_unsigned(word);
}

// The option at words[at], with its value behind it.
std::optional<Refusal> parse_option(std::span<const std::string_view> words, std::size_t at,
                                    PartialRun& run) {
  const std::string_view name = words[at];
  const std::string_view value = words[at + 1];
  if (equal_ignoring_case(name, "MATCH")) {
    run.pattern_word = at + 1;
  } else if (equal_ignoring_case(name, "TYPE")) {
    run.type_word = at + 1;
  } else if (equal_ignoring_case(name, "COUNT")) {
    const std::optional<std::int64_t> count = parse_integer(value);
    if (!count) return Refusal{text::not_an_integer};
    if (*count < 1) return Refusal{text::syntax};
    run.keys_left = static_cast<std::uint64_t>(*count);
  } else {
    return Refusal{text::syntax};
  }
  return std::nullopt;
}

// SCAN cursor [option value]...
std::optional<Refusal> parse_scan(std::span<const std::string_view> words, PartialRun& run) {
  const std::optional<std::uint64_t> cursor = parse_cursor(words[1]);
  if (!cursor) return Refusal{text::bad_cursor};
  run.cursor = *cursor;
  run.keys_left = scan_count_default;
  for (std::size_t at = 2; at < words.size(); at += 2) {
    if (at + 1 == words.size()) return Refusal{text::syntax};
    if (const auto refusal = parse_option(words, at, run)) return refusal;
  }
  return std::nullopt;
}

// Fetches the next keys to visit.
void fetch_keys(Context& context, PartialRun& run) {
  const std::uint64_t count = std::min<std::uint64_t>(run.keys_left, part_items_max);
  keyspace::ScanStep step =
      context.services.keyspace.scan(context.client.database, run.cursor, count, context.now);
  run.keys = std::move(step.keys);
  run.next_key = 0;
  run.cursor = step.cursor;
  // A step may visit more keys than it was asked for. COUNT is a hint, so what was asked for is counted.
  run.keys_left -= count;
}

// Nothing: `pattern_bytes` were read, and it is not known yet.
std::optional<bool> is_wanted(Context& context, PartialRun& run, std::string_view key,
                              std::size_t& pattern_bytes) {
  if (run.pattern_word != 0) {
    const std::optional<bool> matched =
        run.matching.go_on(context.words[run.pattern_word], key, Case::sensitive, pattern_bytes);
    if (matched != true) return matched;
  }
  // The type comes second: it needs another look-up of the key.
  return run.type_word == 0 ||
         equal_ignoring_case(context.words[run.type_word], type_name(find(context, key)));
}

// No client's memory takes such a reply.
bool is_too_long(const Context& context, const PartialRun& run) {
  const std::uint64_t bytes_max = context.services.options.clients_memory_max;
  return bytes_max != 0 && run.byte_count() > bytes_max;
}

// One part of KEYS or SCAN: visits the next keys and keeps those that match. False: there are more.
bool visit_keys(Context& context, PartialRun& run) {
  if (run.next_key == run.keys.size()) fetch_keys(context, run);
  std::size_t pattern_bytes = part_pattern_bytes;
  for (; run.next_key < run.keys.size(); ++run.next_key) {
    const std::string& key = run.keys[run.next_key];
    const std::optional<bool> wanted = is_wanted(context, run, key, pattern_bytes);
    if (!wanted) break;
    if (!*wanted) continue;
    run.elements.bulk(key);
    ++run.element_count;
  }
  run.keep();
  return run.next_key == run.keys.size() && (run.cursor == 0 || run.keys_left == 0);
}

Next keys(Context& context) {
  if (context.partial == nullptr) {
    context.partial = std::make_unique<PartialRun>();
    context.partial->keys_left = all_keys;
    context.partial->pattern_word = 1;
  }
  PartialRun& run = *context.partial;
  const bool all = visit_keys(context, run);
  if (is_too_long(context, run)) return refuse(context, text::keys_reply_too_long);
  if (!all) return Next::more;
  context.reply.array(run.element_count);
  run.append_elements(context.reply);
  return Next::done;
}

Next scan(Context& context) {
  if (context.partial == nullptr) {
    context.partial = std::make_unique<PartialRun>();
    if (const auto refusal = parse_scan(context.words, *context.partial))
      return refuse(context, refusal->text);
    // All other clients wait meanwhile.
    if (context.mode.in_transaction)
      context.partial->keys_left = std::min<std::uint64_t>(context.partial->keys_left, whole_items_max);
  }
  PartialRun& run = *context.partial;
  const bool all = visit_keys(context, run);
  // COUNT is a hint. A reply that has got long ends, and the client goes on with the cursor.
  const bool enough = run.next_key == run.keys.size() && !run.pieces.empty();
  if (is_too_long(context, run)) return refuse(context, text::keys_reply_too_long);
  if (!all && !enough) return Next::more;
  context.reply.array(2);
  context.reply.bulk(std::to_string(run.cursor));
  context.reply.array(run.element_count);
  run.append_elements(context.reply);
  return Next::done;
}

constexpr Family scan_row{.group = "generic", .categories = Category::keyspace, .flags = Flag::read_only};

constexpr CommandSpec scan_family[] = {
    scan_row("keys pattern", 2, "1.0.0", "Answers all keys that match a pattern", keys, Category::dangerous,
             Cost{"O(N) where N is the number of keys in the database"},
             Tips{"request_policy:all_shards nondeterministic_output_order"}),
    scan_row("scan cursor [MATCH pattern] [COUNT count] [TYPE type]", -2, "2.8.0",
             "Goes through the keys of the database in steps; each that stays is seen exactly once", scan,
             Cost{"O(N) for a whole iteration over N keys"},
             Tips{"nondeterministic_output request_policy:special response_policy:special"}),
};

}  // namespace

constinit const Rows scan_rows = scan_family;

}  // namespace sepal::command
