// KEYS and SCAN.

#include <sepal/command/dispatcher.hpp>
#include <sepal/command/error_texts.hpp>

#include <algorithm>
#include <optional>
#include <variant>

#include "arguments.hpp"
#include "filter_type.hpp"
#include "glob.hpp"
#include "handlers.hpp"
#include "parsed.hpp"

namespace sepal::command {
namespace {

constexpr std::uint64_t scan_count_default = 10;

struct ScanRequest {
  std::uint64_t cursor = 0;
  std::uint64_t count = scan_count_default;
  std::optional<std::string_view> pattern;
  bool type_exists = true;  // TYPE names the one type that there is
};

// Leading spaces are taken and leading zeros too, as by the reference; a number beyond 64 bits is none.
std::optional<std::uint64_t> parse_cursor(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
  if (word.empty()) return std::nullopt;
  word.remove_prefix(std::min(word.find_first_not_of('0'), word.size() - 1));
  return parse_unsigned(word);
}

std::optional<Refusal> parse_option(std::string_view name, std::string_view value, ScanRequest& request) {
  if (equal_ignoring_case(name, "MATCH")) {
    request.pattern = value;
  } else if (equal_ignoring_case(name, "TYPE")) {
    request.type_exists = equal_ignoring_case(value, filter_type_name);
  } else if (equal_ignoring_case(name, "COUNT")) {
    const std::optional<std::int64_t> count = parse_integer(value);
    if (!count) return Refusal{text::not_an_integer};
    if (*count < 1) return Refusal{text::syntax};
    request.count = static_cast<std::uint64_t>(*count);
  } else {
    return Refusal{text::syntax};
  }
  return std::nullopt;
}

Parsed<ScanRequest> parse_scan(std::span<const std::string_view> words) {
  ScanRequest request;
  const std::optional<std::uint64_t> cursor = parse_cursor(words[0]);
  if (!cursor) return Refusal{text::bad_cursor};
  request.cursor = *cursor;
  for (std::size_t at = 1; at < words.size(); at += 2) {
    if (at + 1 == words.size()) return Refusal{text::syntax};
    if (const auto refusal = parse_option(words[at], words[at + 1], request)) return *refusal;
  }
  return request;
}

}  // namespace

Next keys(Context& context) {
  // The matches are encoded aside, because their number comes first.
  resp::Reply matched;
  std::size_t count = 0;
  const auto append = [&](std::string_view key) {
    if (!matches(context.words[1], key)) return;
    matched.bulk(key);
    ++count;
  };
  context.services.keyspace.for_each_key(context.client.database, append, context.now);
  context.reply.array(count);
  context.reply.raw(matched.bytes());
  return Next::done;
}

Next scan(Context& context) {
  const auto parsed = parse_scan(context.words.subspan(1));
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) {
    context.reply.error(refusal->text);
    return Next::done;
  }
  const auto& request = std::get<ScanRequest>(parsed);
  keyspace::ScanStep step =
      context.services.keyspace.scan(context.client.database, request.cursor, request.count, context.now);
  std::erase_if(step.keys, [&](const std::string& key) {
    return !request.type_exists || (request.pattern && !matches(*request.pattern, key));
  });
  context.reply.array(2);
  context.reply.bulk(std::to_string(step.cursor));
  context.reply.array(step.keys.size());
  for (const std::string& key : step.keys) context.reply.bulk(key);
  return Next::done;
}

}  // namespace sepal::command
