// The groups, and an index of their names that the compiler makes.

#include "command/table/absent_commands.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/word_list.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

constexpr std::string_view filters_only = "keys hold filters and strings only";

constexpr AbsentGroup absent_table[] = {
    {"BF.DEL and BF.COUNT", "filters of CF.RESERVE take items back and count them, by CF.DEL and CF.COUNT",
     "bf.count bf.del", "neither BF.DEL nor BF.COUNT"},
    {"BF.LOAD", "only Valkey's Bloom module reads its filters; fill a new one, or build it with sepal build",
     "bf.load"},
    {"channels", "clients can neither publish nor subscribe",
     "psubscribe publish pubsub punsubscribe spublish ssubscribe subscribe sunsubscribe "
     "unsubscribe"},
    {"count-min sketches", filters_only, "cms.*"},
    {"geographic indexes", filters_only,
     "geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro "
     "geosearch geosearchstore"},
    {"hashes", filters_only,
     "hdel hexists hexpire hexpireat hexpiretime hget hgetall hincrby hincrbyfloat hkeys hlen "
     "hmget hmset hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetnx "
     "hstrlen httl hvals"},
    {"HyperLogLogs", filters_only, "pfadd pfcount pfdebug pfmerge pfselftest"},
    {"JSON documents", filters_only, "json.*"},
    {"lists", filters_only,
     "blmove blmpop blpop brpop brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush lpushx "
     "lrange lrem lset ltrim rpop rpoplpush rpush rpushx sort sort_ro"},
    {"MIGRATE", "send a filter with BF.SCANDUMP and BF.LOADCHUNK instead", "migrate"},
    {"search indexes", filters_only, "ft.*"},
    {"Sentinel and cluster modes", "it runs as one server", "restore-asking sentinel"},
    {"sets", filters_only,
     "sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember "
     "smove spop srandmember srem sscan sunion sunionstore"},
    {"sorted sets", filters_only,
     "bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard "
     "zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex "
     "zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore "
     "zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore"},
    {"streams", filters_only,
     "xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup "
     "xrevrange xsetid xtrim"},
    {"INCRBYFLOAT and LCS", "strings are kept for filters that clients have in their bits", "incrbyfloat lcs",
     "neither INCRBYFLOAT nor LCS"},
    {"t-digests", filters_only, "tdigest.*"},
    {"time series", filters_only, "ts.*"},
    {"top-k lists", filters_only, "topk.*"},
};

struct AbsentName {
  std::string_view name;  // without the '*'
  bool is_prefix = false;
  std::size_t group = 0;
};

constexpr std::size_t absent_name_count = [] {
  std::size_t count = 0;
  for (const AbsentGroup& group : absent_table) count += word_count(group.names);
  return count;
}();

constexpr auto absent_names = [] {
  std::array<AbsentName, absent_name_count> names;
  std::size_t at = 0;
  for (std::size_t group = 0; group < std::size(absent_table); ++group) {
    for_each_word(absent_table[group].names, [&](std::string_view word) {
      const bool is_prefix = word.ends_with('*');
      names[at++] = {
          .name = word.substr(0, word.size() - (is_prefix ? 1 : 0)), .is_prefix = is_prefix, .group = group};
    });
  }
  std::ranges::sort(names, {}, &AbsentName::name);
  return names;
}();
static_assert(std::ranges::adjacent_find(absent_names, std::ranges::greater_equal{}, &AbsentName::name) ==
                  absent_names.end(),
              "a name is in one group only");
// So if a prefix fits a name, no other name stands between the two.
static_assert(std::ranges::all_of(absent_names,
                                  [](const AbsentName& each) {
                                    return each.is_prefix == each.name.ends_with('.');
                                  }),
              "a prefix ends in a point, and no name does");

constexpr std::size_t longest_absent_name =
    std::ranges::max(absent_names, {}, [](const AbsentName& each) { return each.name.size(); }).name.size();

constexpr Family refused_row{.group = "server"};
constexpr Family cluster_row{.group = "cluster", .categories = Category::connection, .flags = Flag::fast};
constexpr Family call_row{.group = "scripting", .categories = Category::scripting};
constexpr Family slow_cluster{.group = "cluster"};

constexpr CommandSpec absent_family[] = {
    cluster_row("asking", 1, "3.0.0", "Answers the error of a Redis server outside of a cluster",
                Refused{text::no_cluster}),
    slow_cluster("cluster subcommand [argument ...]", -2, "3.0.0",
                 "Answers the error of a Redis server outside of a cluster, whatever the subcommand",
                 Refused{text::no_cluster}),
    refused_row("debug subcommand [argument ...]", -2, "1.0.0",
                "Answers the error of a server that does not allow it", Refused{text::no_debug_command},
                Flag::admin | Flag::no_script | Flag::loading | Flag::stale | Flag::not_enabled),
    call_row(
        "fcall function numkeys [key [key ...]] [arg [arg ...]]", -3, "7.0.0",
        "Answers the error of a server without functions", Refused{text::function_not_found},
        Flag::no_script | Flag::stale | Flag::movable_keys | Flag::no_mandatory_keys | Flag::skip_monitor,
        keys_of_script("RW access update",
                       "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")),
    call_row(
        "fcall_ro function numkeys [key [key ...]] [arg [arg ...]]", -3, "7.0.0",
        "Answers the error of a server without functions", Refused{text::function_not_found},
        Flag::read_only | Flag::no_script | Flag::stale | Flag::movable_keys | Flag::no_mandatory_keys |
            Flag::skip_monitor,
        keys_of_script("RO access",
                       "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")),
    refused_row("psync replicationid offset", -3, "2.8.0", "Answers an error: Sepal has no replicas",
                Refused{text::no_replicas},
                Flag::admin | Flag::no_script | Flag::no_async_loading | Flag::no_multi),
    cluster_row("readonly", 1, "3.0.0",
                "Refused as by a server that is no part of a cluster; some clients send it on connecting",
                Refused{text::no_cluster}, Flag::loading | Flag::stale),
    cluster_row("readwrite", 1, "3.0.0", "Refused as by a server that is no part of a cluster",
                Refused{text::no_cluster}, Flag::loading | Flag::stale),
    refused_row("replconf [option value [option value ...]]", -1, "3.0.0",
                "Answers an error: Sepal has no replicas", Refused{text::no_replicas},
                Flag::admin | Flag::no_script | Flag::loading | Flag::stale | Flag::allow_busy),
    refused_row("sync", 1, "1.0.0", "Answers an error: Sepal has no replicas", Refused{text::no_replicas},
                Flag::admin | Flag::no_script | Flag::no_async_loading | Flag::no_multi),
};

}  // namespace

std::span<const AbsentGroup> absent_groups() {
  return absent_table;
}

const AbsentGroup* find_absent(std::string_view name) {
  std::array<char, longest_absent_name + 1> letters{};
  const std::size_t size = std::min(name.size(), letters.size());
  std::ranges::transform(name.substr(0, size), letters.begin(), [](char c) { return lower(c); });
  const std::string_view wanted(letters.data(), size);
  // The last name that is not behind `wanted`.
  const auto* after = std::ranges::upper_bound(absent_names, wanted, {}, &AbsentName::name);
  if (after == absent_names.begin()) return nullptr;
  const AbsentName& found = *std::prev(after);
  const bool fits = found.is_prefix ? wanted.starts_with(found.name) : wanted == found.name;
  return fits ? &absent_table[found.group] : nullptr;
}

std::string absent_command(const AbsentGroup& group) {
  std::string text = "ERR Sepal has ";
  text.append(group.lacks.empty() ? "no " + std::string(group.what) : std::string(group.lacks));
  text.append(": ").append(group.reason);
  text.append(" (docs/protocol.md, \"What Sepal does not have\")");
  return text;
}

constinit const Rows absent_rows = absent_family;

}  // namespace sepal::command
