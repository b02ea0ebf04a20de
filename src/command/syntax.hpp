// A row's syntax, as a person reads it, into the tree of arguments that COMMAND DOCS answers.
//
//     key                     an argument: lower case
//     NOCREATE                a word to be written as it stands: upper case
//     [EXPANSION expansion]   may be left out; begins with its token
//     [key ...]               what stands before may be repeated, with as many words as stand here
//     [ASYNC | SYNC]          one of; may be left out
//     <ON | OFF>              one of
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

// `syntax` is of the command table: it is taken to be well formed.
[[nodiscard]] std::vector<Argument> parse_syntax(std::string_view syntax);

}  // namespace sepal::command
