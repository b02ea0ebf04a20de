// Turns the syntax of a command, as people read it, into the tree of arguments that COMMAND DOCS answers.
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

namespace sepal {

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
