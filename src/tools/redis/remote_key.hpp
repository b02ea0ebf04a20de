// A key on a server, as `sepal migrate` sees it: a filter or a string.
#pragma once

#include <sepal/keyspace/deadline.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/redis/redis_connection.hpp"

namespace sepal::tools {

// The types of a filter's key, of RedisBloom and of sepald; that of a filter with a window, of sepald and
// sepal.so; and that of a string.
inline constexpr const char* bloom_type = "MBbloom--";
inline constexpr const char* cuckoo_type = "MBbloomCF";
inline constexpr const char* window_type = "SPbloomWF";
inline constexpr const char* string_type = "string";

// What BF.WINDOW tells of a filter with a window, as far as it tells copies from other filters.
struct WindowFigures {
  // The items whose last add was in it. They may move to a newer generation, where adds renew.
  struct Generation {
    std::int64_t number = 0;
    std::int64_t items = 0;
    friend bool operator==(const Generation&, const Generation&) = default;
  };
  std::vector<double> options;          // what BF.RESERVE chose
  std::vector<Generation> generations;  // the live ones, newest first

  [[nodiscard]] bool is_told() const { return !generations.empty(); }
  // 0: nothing is told.
  [[nodiscard]] std::int64_t newest() const { return is_told() ? generations.front().number : 0; }
  // Whether this filter has items that `other` lacks, and has not forgotten: clients have added them to this
  // one alone.
  [[nodiscard]] bool has_more(const WindowFigures& other) const;
  [[nodiscard]] bool alike(const WindowFigures& other) const {
    return options == other.options && !has_more(other) && !other.has_more(*this);
  }
  friend bool operator==(const WindowFigures&, const WindowFigures&) = default;
};

// What BF.INFO, CF.INFO and BF.WINDOW tell that both servers tell alike, and the size. 0 is what one of them
// does not tell.
struct FilterFigures {
  std::int64_t capacity = 0;
  std::int64_t layers = 0;
  std::int64_t items = 0;
  std::int64_t deletes = 0;    // RedisBloom's cuckoo filters: since their last compaction
  std::int64_t expansion = 0;  // 0: does not scale
  std::int64_t buckets = 0;
  std::int64_t bucket_slots = 0;
  std::int64_t iterations = 0;
  std::int64_t bytes = 0;  // each server counts them in its own way
  WindowFigures window{};  // of a filter with a window

  // For two filters with a window, their items count, by generation. One of them may have forgotten more.
  [[nodiscard]] bool alike(const FilterFigures& other) const {
    if (window.is_told() && other.window.is_told()) return window.alike(other.window);
    FilterFigures same_size = other;
    same_size.bytes = bytes;
    return *this == same_size;
  }
  // What CF.RESERVE chose for a cuckoo filter, or BF.RESERVE for one with a window. No change of the filter
  // changes it.
  [[nodiscard]] bool of_shape(const FilterFigures& other) const {
    return buckets == other.buckets && bucket_slots == other.bucket_slots && iterations == other.iterations &&
           expansion == other.expansion && window.options == other.window.options;
  }
  // Whether clients of this filter have changed it since it was a copy of `other`. Compactions may hide that,
  // and compactions of `other` may look like it.
  [[nodiscard]] bool went_on_from(const FilterFigures& other) const {
    if (window.is_told()) return window.has_more(other.window);
    return items + deletes > other.items + other.deletes || deletes > other.deletes;
  }
  friend bool operator==(const FilterFigures&, const FilterFigures&) = default;
};
[[nodiscard]] FilterFigures figures_of(ReplyView info);

// The value in a line "name:value" of INFO; empty: there is none.
[[nodiscard]] std::string field_of(std::string_view info, const std::string& name);

// Which databases have keys, and how many: from the lines "db0:keys=5,..." of INFO.
struct DatabaseSize {
  std::uint32_t database = 0;
  std::uint64_t key_count = 0;
};
[[nodiscard]] std::vector<DatabaseSize> databases_in(std::string_view info);

struct RemoteKey {
  std::string key;
  std::string type;                // "none" where there is no key
  bool is_filter = false;          // of any type, and was there for all questions
  bool is_string = false;          // likewise
  std::string refusal;             // the server's words where it does not tell what the key has
  FilterFigures figures;           // of a filter
  std::uint64_t string_bytes = 0;  // of a string
  keyspace::Deadline deadline = keyspace::no_deadline;
};

// The commands of a family of filters.
struct FilterCommands {
  std::string_view info;
  std::string_view exists;
  std::string_view scan;  // empty, as `load`: it has no pieces
  std::string_view load;
};
[[nodiscard]] const FilterCommands& commands_of(const RemoteKey& filter);

// Why a key of the target is not replaced that has neither nothing nor what is to be copied.
[[nodiscard]] std::string value_in_the_way(const RemoteKey& target);

// How a server tells deadlines.
enum class DeadlineQuestion : std::uint8_t {
  absolute,  // PEXPIRETIME
  relative,  // PTTL: Redis before version 7
};
// Asks which one the server knows. Errors: io.
Result<DeadlineQuestion> deadline_question_of(RedisConnection& server);

// Asks about keys of the selected database, all in one go. In the order of `keys`. Errors: io.
Result<std::vector<RemoteKey>> examine(RedisConnection& server, std::span<const std::string> keys,
                                       DeadlineQuestion how);

// `how` is relative where one of the servers tells the deadline so. Then the way of the replies may differ.
[[nodiscard]] bool same_deadline(const RemoteKey& one, const RemoteKey& other, DeadlineQuestion how);
// Gives a key of the server this deadline, or none. add_deadline() leaves the reply to the caller. Errors:
// io.
void add_deadline(RedisConnection& server, std::string_view key, keyspace::Deadline deadline);
Result<void> set_deadline(RedisConnection& server, std::string_view key, keyspace::Deadline deadline);

}  // namespace sepal::tools
