// The command table has one declarative row for each command and subcommand. Dispatch, arity, flags, key
// positions, COMMAND, statistics and help are made from it. A test compares docs/protocol.md with it.
#pragma once

#include <sepal/base/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sepal::command {

struct Context;

// What the session does after a handler.
enum class Next : std::uint8_t {
  done,        // the reply is complete
  need_alone,  // nothing was answered: run again with the gate closed. Nothing was changed either, but the
               // target of a mirror may have items already. To add them again does no harm.
  later,       // nothing was done: run again when the journal has made progress
  paused,      // nothing was done: run again when the pause has ended (CLIENT PAUSE)
  delayed,     // nothing was answered: run again at ClientState::login_due
  more,        // a part was done, see partial_run.hpp: run again for the rest, other clients may run before
  wait,        // no reply yet: read nothing more of this connection until Server::answer
  close,       // send the reply, then close
};

using Handler = Next (*)(Context&);
// Runs several requests that differ only in one word, given as `last_words`, as if one after the other. It is
// their last word, or the one before the row's `together_tail`. done: each has its answer, a boolean, in
// `answers`. need_alone: as in Next, but run them one by one. It returns nothing else, and replies nothing
// itself.
using TogetherHandler = Next (*)(Context&, std::span<const std::string_view> last_words,
                                 std::span<bool> answers);

// The index of the first item of a request that may run in parts (partial_run.hpp). 0: the request is
// malformed; it runs whole, and its handler answers the error.
using ItemsAt = std::size_t (*)(std::span<const std::string_view> words);

// What a request does with its keys, where its words say so. `words` may be any words that name the row.
struct KeyUse {
  std::size_t count = 1;      // it names so many keys, the first ones of the row's
  std::string_view access{};  // as KeyRange::access, the same for each of them
};
using KeyUseOf = KeyUse (*)(std::span<const std::string_view> words);

// Whether a request to a row that writes only asks: it changes nothing. `words` as above.
using AskTest = bool (*)(std::span<const std::string_view> words);

// Whether a request removes keys and does nothing else: on a full disk the journal keeps room for such
// requests.
using FreesTest = bool (*)(std::span<const std::string_view> words, WallTime now);

// For what a request asks for room in the journal, before it runs.
struct RecordAsk {
  std::span<const std::string_view> words;
  std::size_t item_count = 0;    // of the request, or of those that run together; not less than it has
  bool alone = false;            // the gate is closed
  std::uint32_t layers_max = 0;  // to which a filter may grow; 0: it may not
  bool in_transaction = false;   // of EXEC or a script, where all parts of a request run at once
};
// The most bytes that a request records, as WorkerLog::admit counts them.
using RecordBytes = std::uint64_t (*)(const RecordAsk& ask);

// Flags, as a set of bits. Names in COMMAND are the reference's.
enum class Flag : std::uint32_t {
  write = 1u << 0,
  read_only = 1u << 1,
  deny_oom = 1u << 2,  // refused above maxmemory
  admin = 1u << 3,
  no_script = 1u << 4,
  loading = 1u << 5,
  stale = 1u << 6,
  fast = 1u << 7,
  no_auth = 1u << 8,  // allowed before authentication
  allow_busy = 1u << 9,
  no_async_loading = 1u << 10,
  no_multi = 1u << 11,
  module = 1u << 12,
  skip_slowlog = 1u << 15,
  blocking = 1u << 18,
  skip_monitor = 1u << 19,
  no_mandatory_keys = 1u << 20,
  movable_keys = 1u << 21,
  // Sepal's own, not shown by COMMAND:
  alone = 1u << 13,        // run with the gate closed; but see shares_one_key
  unqueued = 1u << 16,     // runs at once between MULTI and EXEC
  runs_script = 1u << 22,  // runs a script
  integers = 1u << 24,     // run_together's answers are the integers 0 and 1 in RESP3 as well
  administers = 1u << 25,  // written to the log, with its client
  not_enabled = 1u << 26,  // answers that it is not enabled, also before a login and to a user without rights
  // Requests in a pipeline that differ in their key are taken together, so that the memory of their keys
  // comes in one wait. For a key behind the name, at most one word behind the key, and short replies.
  key_after_key = 1u << 27,
  // Beside `alone`: a request with one key shares the gate, as long as there is no mirror.
  shares_one_key = 1u << 28,
  adds = 1u << 29,           // adds items, which count where they are refused
  outside_multi = 1u << 17,  // refused between MULTI and EXEC, although the reference takes it there
};
struct Flags {
  std::uint32_t bits = 0;
  constexpr Flags() = default;
  constexpr Flags(Flag flag) : bits(static_cast<std::uint32_t>(flag)) {}
  [[nodiscard]] constexpr bool has(Flag flag) const { return (bits & static_cast<std::uint32_t>(flag)) != 0; }
  friend constexpr Flags operator|(Flags a, Flags b) {
    a.bits |= b.bits;
    return a;
  }
};
constexpr Flags operator|(Flag a, Flag b) {
  return Flags(a) | Flags(b);
}

// Which words of a request are keys: words [first, last] in steps; last -1 is the last word. first 0: none.
struct KeyRange {
  std::int8_t first = 0;
  std::int8_t last = 0;
  std::int8_t step = 0;
  // If it is not 0, this word says how many keys follow it; there are no others but `first`, if that is not
  // 0.
  std::int8_t count_at = 0;
  // What the command does to the keys, in the reference's words: "RW", "RM delete". A '/' divides what it
  // does to the first key from what it does to the second: "RW access delete/OW update".
  std::string_view access{};
  std::string_view note{};  // the reference's, for people
};

// The categories of commands, for the rights of users, in the order of the reference. It names those of its
// modules last.
enum class Category : std::uint8_t {
  keyspace,
  read,
  write,
  set,
  sorted_set,
  list,
  hash,
  string,
  bitmap,
  hyperloglog,
  geo,
  stream,
  pubsub,
  admin,
  fast,
  slow,
  blocking,
  dangerous,
  connection,
  transaction,
  scripting,
  bloom,
  cuckoo
};
// A set of them.
struct Categories {
  std::uint32_t bits = 0;
  constexpr Categories() = default;
  constexpr Categories(Category category) : bits(1u << static_cast<unsigned>(category)) {}
  // Any of the others.
  [[nodiscard]] constexpr bool has(Categories others) const { return (bits & others.bits) != 0; }
  friend constexpr Categories operator|(Categories a, Categories b) {
    a.bits |= b.bits;
    return a;
  }
};
constexpr Categories operator|(Category a, Category b) {
  return Categories(a) | Categories(b);
}

struct CommandSpec {
  std::string_view name;  // lower case: "bf.add", "client|setname"
  std::int8_t arity = 0;  // words including the name; negative: at least so many
  Flags flags{};
  KeyRange keys{};
  Categories categories{};
  std::string_view summary{};
  std::string_view since{};
  std::string_view group{};
  std::string_view complexity{};
  std::string_view syntax{};   // arguments as a person reads them: "key error_rate capacity [EXPANSION n]"
  std::string_view tips{};     // blank separated
  std::string_view refusal{};  // the error that answers every request, in place of a handler of its own
  KeyUseOf key_use = nullptr;  // null: `keys` says all
  AskTest asks = nullptr;      // null: never
  FreesTest frees = nullptr;   // null: never
  RecordBytes record_bytes = nullptr;      // null: at most what record_bytes_of_keys() tells of the arguments
  ItemsAt items_at = nullptr;              // null: a request of many words is not cut into parts
  Handler run = nullptr;                   // null for a command that only has subcommands
  TogetherHandler run_together = nullptr;  // where neighbours in a pipeline gain by it
  std::uint8_t together_tail = 0;  // the words behind the one in which requests that run together differ
  std::span<const CommandSpec> subcommands{};  // sorted by name
};

// Whether a request to the row changes nothing although the row may.
[[nodiscard]] inline bool only_asks(const CommandSpec& spec, std::span<const std::string_view> words) {
  return spec.asks != nullptr && spec.asks(words);
}

// The index of the word in which requests of so many words that run together differ.
[[nodiscard]] constexpr std::size_t together_index(const CommandSpec& spec, std::size_t word_count) {
  return word_count - 1 - spec.together_tail;
}

// Sorted by name.
[[nodiscard]] std::span<const CommandSpec> command_table();

// By name in any case; null when there is none. Constant time, allocates nothing.
[[nodiscard]] const CommandSpec* find_command(std::string_view name);

// The row for a request of these words, of which there is at least one: the subcommand's row where there is
// one. Null for an unknown command; for an unknown subcommand, its command's row.
[[nodiscard]] const CommandSpec* row_for(std::span<const std::string_view> words);

// The most names that one COMMAND INFO, COMMAND DOCS, CONFIG GET or LATENCY HISTOGRAM may ask for. The answer
// is hundreds of times as long as the request, so without a limit a small request takes all memory.
inline constexpr std::size_t described_names_max = 1024;
// The most bytes that COMMAND DOCS answers: one name may be that of a command with
// many subcommands, and may come again and again.
inline constexpr std::size_t described_bytes_max = std::size_t{4} << 20;

// More rows than the table has, subcommands included: the size of sets of rows.
inline constexpr std::size_t command_rows_max = 512;

// Every row, subcommands included, has a number below this one: the index into per-command statistics.
[[nodiscard]] std::size_t command_row_count();
[[nodiscard]] std::size_t command_row(const CommandSpec& spec);

}  // namespace sepal::command
