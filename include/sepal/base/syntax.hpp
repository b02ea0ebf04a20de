// What is said about a command to clients: its facts, and the tree of arguments that COMMAND DOCS answers,
// which is made of its syntax as people read it.
//
//     key                     an argument: lower case
//     NOCREATE                a word that is sent as it is: upper case
//     [EXPANSION expansion]   may be left out; begins with its token
//     [key ...]               the arguments before it may be repeated: as many as it has words before "..."
//     [ASYNC | SYNC]          one of them; may be left out
//     <ON | OFF>              one of them
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sepal {

// What COMMAND, COMMAND DOCS and the rights of users say about a command that every host has: sepald and
// sepal.so. Texts are literals: a zero byte is behind each.
struct CommandFacts {
  std::string_view name;          // lower case: "bf.add"
  std::int8_t arity = 0;          // words including the name; negative: at least so many
  bool writes = false;            // else it only reads
  bool grows = true;              // if it writes: it may take memory, so it is refused above maxmemory
  std::int8_t key_count_at = 0;   // this word says how many keys follow it; 0: the key is the first word
  bool fast = false;              // it takes a short time, whatever the size of the filter
  std::string_view categories{};  // of the rights of users; blank separated, with '@'
  std::string_view summary{};
  std::string_view since{};
  std::string_view complexity{};
  std::string_view syntax{};
  std::string_view tips{};  // blank separated
};

struct SyntaxArgument {
  std::string name;
  std::string_view type;  // the reference's: key, string, integer, double, pattern, pure-token, block, oneof
  std::string token{};    // empty: none
  bool optional = false;
  bool repeated = false;
  std::vector<SyntaxArgument> arguments{};  // of a block or a oneof
};

// `syntax` comes from a table of commands and must be well formed: it is not checked.
[[nodiscard]] std::vector<SyntaxArgument> parse_syntax(std::string_view syntax);

}  // namespace sepal
