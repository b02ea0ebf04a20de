#include "tools/redis/remote_key.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/whole_number.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

namespace sepal::tools {
namespace {

// PTTL tells the time that is left when the server answers. So a computed deadline is late by the time that
// the reply took, which differs between two servers.
constexpr keyspace::Deadline computed_deadline_tolerance = 1000;

void add_questions(RedisConnection& server, const std::string& key, DeadlineQuestion how) {
  server.add({"TYPE", key});
  server.add({"BF.INFO", key});
  server.add({how == DeadlineQuestion::absolute ? "PEXPIRETIME" : "PTTL", key});
}

constexpr std::array<std::string_view, 7> option_names{
    "window_seconds", "window_items", "generations", "refresh", "capacity", "false_positive_rate_asked",
    "expansion"};

// Items that were added or renewed in generation `first` or later.
std::int64_t items_since(const WindowFigures& filter, std::int64_t first) {
  std::int64_t items = 0;
  for (const auto& generation : filter.generations)
    if (generation.number >= first) items += generation.items;
  return items;
}

// A whole number, or one with a fraction, which servers write in their own ways. 0: there is none.
double real_of(ReplyView value) {
  return parse_real(value.text()).value_or(static_cast<double>(value.number()));
}

WindowFigures::Generation generation_of(ReplyView fields) {
  WindowFigures::Generation generation;
  for (std::size_t at = 0; at + 1 < fields.size(); at += 2) {
    if (fields[at].text() == "number") generation.number = fields[at + 1].number();
    if (fields[at].text() == "items") generation.items = fields[at + 1].number();
  }
  return generation;
}

// Replies to other requests tell nothing.
WindowFigures window_figures_of(ReplyView reply) {
  WindowFigures figures;
  for (std::size_t at = 0; at + 1 < reply.size(); at += 2) {
    const std::string_view name = reply[at].text();
    const ReplyView value = reply[at + 1];
    if (std::ranges::find(option_names, name) != option_names.end())
      figures.options.push_back(real_of(value));
    if (name != "by_generation") continue;
    for (std::size_t number = 0; number < value.size(); ++number)
      figures.generations.push_back(generation_of(value[number]));
  }
  // An error, or a reply to something else.
  return figures.generations.empty() ? WindowFigures() : figures;
}

// Whether another command than BF.INFO tells the figures of such filters.
bool has_own_figures(std::string_view type) {
  return type == cuckoo_type || type == window_type;
}

Result<RemoteKey> receive_answers(RedisConnection& server, const std::string& key, DeadlineQuestion how) {
  // All three replies are taken before any of them is judged: each request has its reply, in order.
  const auto type = server.receive();
  if (!type) return type.error();
  const auto info = server.receive();
  if (!info) return info.error();
  const auto deadline = server.receive();
  if (!deadline) return deadline.error();
  RemoteKey found;
  found.key = key;
  found.type = type->view().text();
  if (type->view().is_error()) found.refusal = type->view().text();
  found.figures = figures_of(info->view());
  // -1: no deadline; -2: no key any more. The three questions are no transaction: the key may go, or get
  // another type, between two of them. Then it is neither a filter nor a string.
  const std::int64_t told = deadline->view().number();
  // Taken for no deadline, an error would let the copy stay for ever. A key of which the server tells nothing
  // is not copied anyway.
  if (deadline->view().is_error() && !type->view().is_error())
    return fail(Errc::io,
                server.name() + " does not tell deadlines: " + std::string(deadline->view().text()));
  found.is_filter =
      (has_own_figures(found.type) || (found.type == bloom_type && info->view().size() != 0)) && told != -2;
  found.is_string = found.type == string_type && told != -2;
  if (found.type == bloom_type && !found.is_filter && told != -2)
    found.refusal = "the server tells nothing about it";
  // PTTL answers 0 for a key that expires within this millisecond.
  if (told >= 0) {
    const auto now = keyspace::deadline_at(std::chrono::system_clock::now());
    found.deadline = how == DeadlineQuestion::absolute ? told : now + told;
  }
  return found;
}

// Most keys are filters, so strings are asked for their length in a second round.
Result<void> measure_strings(RedisConnection& server, std::span<RemoteKey> keys) {
  for (const RemoteKey& key : keys)
    if (key.is_string) server.add({"STRLEN", key.key});
  for (RemoteKey& key : keys) {
    if (!key.is_string) continue;
    const auto length = server.receive();
    if (!length) return length.error();
    // Meanwhile the key has another type, or the user may not ask this.
    if (length->view().is_error()) {
      key.is_string = false;
      key.refusal = length->view().text();
    }
    key.string_bytes = static_cast<std::uint64_t>(length->view().number());
  }
  return {};
}

// CF.INFO and BF.WINDOW of a key without a filter, of both servers.
constexpr std::string_view no_filter = "ERR not found";

// Cuckoo filters and those with a window are asked in a second round as well.
Result<void> measure_other_filters(RedisConnection& server, std::span<RemoteKey> keys) {
  const auto is_other = [](const RemoteKey& key) { return key.is_filter && has_own_figures(key.type); };
  for (const RemoteKey& key : keys)
    if (is_other(key)) server.add({commands_of(key).info, key.key});
  for (RemoteKey& key : keys) {
    if (!is_other(key)) continue;
    const auto info = server.receive();
    if (!info) return info.error();
    key.figures = figures_of(info->view());
    if (!info->view().is_error()) continue;
    key.is_filter = false;
    // A key that is gone meanwhile is no filter that is left out.
    if (info->view().text() != no_filter) key.refusal = info->view().text();
  }
  return {};
}

}  // namespace

// A filter that has gone on has more items since any generation, also where adds renew: an item only moves to
// a newer one. Generations that the other one has forgotten say nothing.
bool WindowFigures::has_more(const WindowFigures& other) const {
  if (!other.is_told()) return false;
  return std::ranges::any_of(generations, [&](const Generation& generation) {
    return generation.number >= other.generations.back().number &&
           items_since(*this, generation.number) > items_since(other, generation.number);
  });
}

const FilterCommands& commands_of(const RemoteKey& filter) {
  static constexpr FilterCommands bloom{
      .info = "BF.INFO", .exists = "BF.MEXISTS", .scan = "BF.SCANDUMP", .load = "BF.LOADCHUNK"};
  static constexpr FilterCommands cuckoo{
      .info = "CF.INFO", .exists = "CF.MEXISTS", .scan = "CF.SCANDUMP", .load = "CF.LOADCHUNK"};
  static constexpr FilterCommands window{.info = "BF.WINDOW", .exists = "BF.MEXISTS", .scan = "", .load = ""};
  if (filter.type == window_type) return window;
  return filter.type == cuckoo_type ? cuckoo : bloom;
}

// RESP2 answers a flat list of names and values. A server answers nil as the expansion of a filter that does
// not scale, and number() makes 0 of it. Names that are not known are left out.
FilterFigures figures_of(ReplyView info) {
  FilterFigures figures;
  for (std::size_t i = 0; i + 1 < info.size(); i += 2) {
    const std::string_view name = info[i].text();
    const std::int64_t value = info[i + 1].number();
    if (name == "Capacity") figures.capacity = value;
    if (name == "Size") figures.bytes = value;
    if (name == "Number of filters") figures.layers = value;
    if (name == "Number of items inserted") figures.items = value;
    if (name == "Number of items deleted") figures.deletes = value;
    if (name == "Number of buckets") figures.buckets = value;
    if (name == "Bucket size") figures.bucket_slots = value;
    if (name == "Max iterations") figures.iterations = value;
    if (name == "Expansion rate") figures.expansion = value;
    // BF.WINDOW
    if (name == "items") figures.items = value;
    if (name == "memory_bytes") figures.bytes = value;
  }
  figures.window = window_figures_of(info);
  return figures;
}

std::string value_in_the_way(const RemoteKey& target) {
  return target.refusal.empty() ? "the target has another value under its key"
                                : "at the target: " + target.refusal;
}

std::string field_of(std::string_view info, const std::string& name) {
  const std::size_t at = info.find(name + ":");
  if (at == std::string_view::npos) return "";
  const std::string_view rest = info.substr(at + name.size() + 1);
  return std::string(rest.substr(0, rest.find('\r')));
}

std::vector<DatabaseSize> databases_in(std::string_view info) {
  constexpr std::string_view begin = "db";
  constexpr std::string_view between = ":keys=";
  std::vector<DatabaseSize> databases;
  while (!info.empty()) {
    const std::string_view line = info.substr(0, info.find('\n'));
    info.remove_prefix(std::min(line.size() + 1, info.size()));
    const std::size_t colon = line.find(between);
    if (!line.starts_with(begin) || colon == std::string_view::npos) continue;
    DatabaseSize one;
    const auto database =
        parse_whole<decltype(one.database)>(line.substr(begin.size(), colon - begin.size()));
    if (!database) continue;
    one.database = *database;
    const std::string_view count = line.substr(colon + between.size());
    one.key_count =
        parse_whole<decltype(one.key_count)>(count.substr(0, count.find_first_not_of("0123456789")))
            .value_or(0);
    databases.push_back(one);
  }
  return databases;
}

Result<DeadlineQuestion> deadline_question_of(RedisConnection& server) {
  // An absent key answers a number. A server that does not know the command, or does not allow it, answers an
  // error, and PTTL is asked instead.
  const auto told = server.ask({"PEXPIRETIME", "a key"});
  if (!told) return told.error();
  return told->view().is_error() ? DeadlineQuestion::relative : DeadlineQuestion::absolute;
}

Result<std::vector<RemoteKey>> examine(RedisConnection& server, std::span<const std::string> keys,
                                       DeadlineQuestion how) {
  for (const std::string& key : keys) add_questions(server, key, how);
  std::vector<RemoteKey> found;
  for (const std::string& key : keys) {
    auto one = receive_answers(server, key, how);
    if (!one) return one.error();
    found.push_back(std::move(*one));
  }
  if (auto done = measure_strings(server, found); !done) return done.error();
  if (auto done = measure_other_filters(server, found); !done) return done.error();
  return found;
}

bool same_deadline(const RemoteKey& one, const RemoteKey& other, DeadlineQuestion how) {
  if (one.deadline == other.deadline) return true;
  return how == DeadlineQuestion::relative && one.deadline != keyspace::no_deadline &&
         other.deadline != keyspace::no_deadline &&
         std::abs(one.deadline - other.deadline) <= computed_deadline_tolerance;
}

void add_deadline(RedisConnection& server, std::string_view key, keyspace::Deadline deadline) {
  if (deadline == keyspace::no_deadline) return server.add({"PERSIST", key});
  server.add({"PEXPIREAT", key, std::to_string(deadline)});
}

Result<void> set_deadline(RedisConnection& server, std::string_view key, keyspace::Deadline deadline) {
  add_deadline(server, key, deadline);
  const auto reply = server.receive();
  if (!reply) return reply.error();
  if (!reply->view().is_error()) return {};
  return fail(Errc::io, server.name() + " refuses a deadline: " + std::string(reply->view().text()));
}

}  // namespace sepal::tools
