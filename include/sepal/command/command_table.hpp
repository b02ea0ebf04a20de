// The command table: one declarative row for each command and subcommand, from which dispatch, arity, flags,
// key positions, COMMAND, statistics, help and the documents are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sepal::command {

struct Context;

// What the session does after a handler.
enum class Next : std::uint8_t {
  done,        // the reply is complete
  need_alone,  // nothing was done: run again with the gate closed
  later,       // nothing was done: run again when the journal has made progress
  wait,        // no reply yet: read nothing more of this connection until Server::answer
  close,       // send the reply, then close
};

using Handler = Next (*)(Context&);
// Runs several requests that differ in their last word only, given as `last_words`, as if one after the
// other. done: each has its answer in `answers`, a boolean. need_alone: nothing was done, run them one by
// one. Never anything else. It replies nothing itself.
using TogetherHandler = Next (*)(Context&, std::span<const std::string_view> last_words,
                                 std::span<bool> answers);

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
  // Sepal's own, not shown by COMMAND:
  alone = 1u << 13,   // always run with the gate closed
  adopts = 1u << 14,  // may put a filter that came whole under a key
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
  // What is done to them, in the reference's words: "RW", "RM delete". A '/' divides what is done to the
  // first key from what is done to the second: "RW access delete/OW update".
  std::string_view access{};
};

struct CommandSpec {
  std::string_view name;  // lower case: "bf.add", "client|setname"
  std::int8_t arity = 0;  // words including the name; negative: at least so many
  Flags flags{};
  KeyRange keys{};
  std::string_view categories{};  // blank separated, with '@'
  std::string_view summary{};
  std::string_view since{};
  std::string_view group{};
  std::string_view complexity{};
  std::string_view syntax{};  // arguments as a person reads them: "key error_rate capacity [EXPANSION n]"
  std::string_view tips{};    // blank separated
  Handler run = nullptr;      // null for a command that only has subcommands
  TogetherHandler run_together = nullptr;      // where neighbours in a pipeline gain by it
  std::span<const CommandSpec> subcommands{};  // sorted by name
};

// Sorted by name.
[[nodiscard]] std::span<const CommandSpec> command_table();

// By name in any case; null when there is none. Constant time, allocates nothing.
[[nodiscard]] const CommandSpec* find_command(std::string_view name);

// The row that a request of these words asks for, of which there is one at least: a subcommand's where there
// is one. Null for an unknown command; a command's row for an unknown subcommand of it.
[[nodiscard]] const CommandSpec* row_for(std::span<const std::string_view> words);

// Names that one COMMAND INFO or COMMAND DOCS may ask for. What they answer is hundreds of times as long as
// what was asked, so without a limit a small request takes all memory.
inline constexpr std::size_t described_names_max = 1024;

// Every row, subcommands included, has a number below this one: the index into per-command statistics.
[[nodiscard]] std::size_t command_row_count();
[[nodiscard]] std::size_t command_row(const CommandSpec& spec);

}  // namespace sepal::command
