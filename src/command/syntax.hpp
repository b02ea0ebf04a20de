// Turns a row's syntax, which is written for people, into the tree of arguments that COMMAND DOCS answers.
//
//     key                     an argument: lower case
//     NOCREATE                a word that is sent as it is: upper case
//     [EXPANSION expansion]   may be left out; begins with its token
//     [key ...]               the arguments before it may be repeated: as many as it has words before "..."
//     [ASYNC | SYNC]          one of them; may be left out
//     <ON | OFF>              one of them
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

struct Argument {
  std::string name;
  std::string_view type;  // the reference's: key, string, integer, double, pattern, pure-token, block, oneof
  std::string token{};    // empty: none
  bool optional = false;
  bool repeated = false;
  std::vector<Argument> arguments{};  // of a block or a oneof
};

// `syntax` comes from the command table and must be well formed: it is not checked.
[[nodiscard]] std::vector<Argument> parse_syntax(std::string_view syntax);

}  // namespace sepal::command
