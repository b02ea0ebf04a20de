// BF.MERGE and BF.SHRINK: filters that are made of the bits of others (bloom/filter/unite.hpp). What is small
// is made at once, with the gate closed; what is large, by a job outside the workers.

#include <sepal/base/arguments.hpp>
#include <sepal/bloom/commands/options.hpp>
#include <sepal/bloom/commands/texts.hpp>
#include <sepal/bloom/filter/unite.hpp>
#include <sepal/command/run/adoptions.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/keyspace/part_list.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include "command/bloom/remaking.hpp"
#include "command/keys/lookup.hpp"
#include "command/run/adopting.hpp"
#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using bloom::Filter;
using Words = std::span<const std::string_view>;

// The bytes that are read with the gate closed: some hundred microseconds.
constexpr std::uint64_t remade_at_once_max = std::uint64_t{256} << 10;

// numkeys source [source ...] [OVERRIDE] [ALLOW rate]
struct MergeOptions {
  Words sources;
  bool override_present = false;
  std::optional<double> allowed;
};

// The error; empty if there is none. `words` follow the destination.
std::string_view parse_merge(Words words, MergeOptions& options) {
  const auto count = parse_integer(words[0]);
  if (!count) return text::not_an_integer;
  if (*count < 1) return bloom::text::too_few_keys;
  if (static_cast<std::uint64_t>(*count) > words.size() - 1) return text::syntax;
  options.sources = words.subspan(1, static_cast<std::size_t>(*count));
  const Words rest = words.subspan(1 + options.sources.size());
  for (std::size_t at = 0; at < rest.size(); ++at) {
    if (equal_ignoring_case(rest[at], "OVERRIDE")) {
      options.override_present = true;
    } else if (equal_ignoring_case(rest[at], "ALLOW") && at + 1 < rest.size()) {
      double rate = 0;
      if (const auto wrong = bloom::read_rate(rest[++at], rate); !wrong.empty()) return wrong;
      options.allowed = rate;
    } else {
      return text::syntax;
    }
  }
  return {};
}

void answer_remake(resp::Reply& reply, const Result<void>& outcome) {
  if (outcome) return reply.ok();
  const Error& error = outcome.error();
  if (error.code == Errc::out_of_range && !error.detail.empty()) return reply.error("ERR " + error.detail);
  if (error.code == Errc::key_exists) return reply.error(text::part_changed);
  answer_adoption(reply, outcome);
}

// With the gate closed.
Next remake(Context& context, RemakeRequest request) {
  std::uint64_t bytes = 0;
  for (const auto& part : request.parts) bytes += value::row_of(*part).byte_count(*part);
  if (bytes <= remade_at_once_max) {
    answer_remake(context.reply, Remaking(std::move(request)).make_now(context.changes));
    return Next::done;
  }
  if (context.mode.in_transaction) return refuse(context, text::whole_in_transaction);
  Adoption adoption{.what = request.unites ? "merge" : "shrink",
                    .database = request.database,
                    .key = request.key,
                    .make = {},
                    .still_wanted = contents_stay(context, request.database),
                    .answer = answer_remake};
  const auto remaking = std::make_shared<Remaking>(std::move(request));
  adoption.make = [remaking](const JobContext& job) { return remaking->make(job); };
  adoption.succession = {
      .catch_up = [remaking](const value::ValuePtr& made) { return remaking->catch_up(made); },
      .put = [remaking](keyspace::Mutator& changes,
                        const value::ValuePtr& made) { return remaking->put(changes, made); },
      .ended = [remaking](keyspace::Keyspace& keyspace) { remaking->end(keyspace); }};
  context.services.adoptions.adopt(context.client, std::move(adoption));
  return Next::wait;
}

bool is_filter(const value::Value& value) {
  return value.kind() == value::Kind::bloom || value.kind() == value::Kind::window;
}

// Adds the filter of a key to the parts. False, answered: there is none.
bool take_part(Context& context, std::string_view key, RemakeRequest& request) {
  value::Value* const filter = find_counted(context, key);
  if (filter == nullptr) {
    context.reply.error(text::filter_not_found);
  } else if (!is_filter(*filter)) {
    answer_other_kind(context.reply);
  } else if (!request.parts.empty() && request.parts[0]->kind() != filter->kind()) {
    context.reply.error(text::union_of_kinds);
  } else {
    request.part_keys.emplace_back(key);
    request.parts.emplace_back(filter);
    return true;
  }
  return false;
}

Next bf_merge(Context& context) {
  MergeOptions options;
  if (const auto wrong = parse_merge(context.words.subspan(2), options); !wrong.empty())
    return refuse(context, wrong);
  RemakeRequest request{.database = context.client.database,
                        .key = std::string(context.words[1]),
                        .unites = true,
                        .replaces = options.override_present,
                        .allowed = options.allowed,
                        .now = context.now};
  const value::Value* const present = find(context, request.key);
  if (present != nullptr && !is_filter(*present)) {
    answer_other_kind(context.reply);
    return Next::done;
  }
  std::vector<std::string_view> keys(options.sources.begin(), options.sources.end());
  if (present != nullptr && !options.override_present) keys.emplace_back(request.key);
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::size_t part_bytes = 0;
  for (const std::string_view key : keys) part_bytes += keyspace::part_head_bytes + key.size();
  if (part_bytes > keyspace::remade_parts_bytes_max) return refuse(context, text::names_too_long);
  // Before the gate closes, so that a wrong request stops no worker.
  for (const std::string_view key : keys)
    if (!take_part(context, key, request)) return Next::done;
  return context.alone ? remake(context, std::move(request)) : Next::need_alone;
}

Next bf_shrink(Context& context) {
  std::uint64_t capacity = 0;
  if (const auto wrong = bloom::read_capacity(context.words[2], capacity); !wrong.empty())
    return refuse(context, wrong);
  RemakeRequest request{
      .database = context.client.database, .key = std::string(context.words[1]), .capacity = capacity};
  if (!take_part(context, request.key, request)) return Next::done;
  const auto* const filter = value::as<Filter>(request.parts[0].get());
  if (filter == nullptr) return refuse(context, text::window_not_shrunk);
  if (!bloom::shape_shrunk(*filter, capacity)) return refuse(context, text::not_shrunk);
  return context.alone ? remake(context, std::move(request)) : Next::need_alone;
}

constexpr Family remake_row{.group = "module",
                            .categories = Category::bloom | Category::write | Category::slow,
                            .flags = Flag::module | Flag::write | Flag::deny_oom,
                            .flags_imply_categories = false};

constexpr KeyRange destination_and_sources{
    .first = 1, .last = 1, .step = 1, .count_at = 2, .access = "RW access update/RO access"};

constexpr CommandSpec remake_family[] = {
    remake_row("bf.merge destination numkeys source [source ...] [OVERRIDE] [ALLOW rate]", -4, "1.0.0",
               "Unites filters of one seed and shape; Sepal's own", bf_merge, records_adoption,
               destination_and_sources, Flag::movable_keys, Cost{"O(N) where N is the size of all filters"}),
    remake_row("bf.shrink key capacity", 3, "1.0.0",
               "Makes a filter that was reserved too large smaller, without a rebuild; Sepal's own",
               bf_shrink, records_adoption, one_key("RW access update"),
               Cost{"O(N) where N is the size of the filter"}),
};

}  // namespace

constinit const Rows remake_rows = remake_family;

}  // namespace sepal::command
