#include <sepal/base/syntax.hpp>

#include "support/catch.hpp"

namespace syntax_test {

using sepal::parse_syntax;
using sepal::SyntaxArgument;

namespace {

std::string shape(const std::vector<SyntaxArgument>& arguments) {
  std::string text;
  for (const SyntaxArgument& argument : arguments) {
    text.append(text.empty() ? "" : " ").append(argument.name).append(":").append(argument.type);
    if (!argument.token.empty()) text.append("=").append(argument.token);
    if (argument.optional) text.append("?");
    if (argument.repeated) text.append("+");
    if (!argument.arguments.empty()) text.append("(").append(shape(argument.arguments)).append(")");
  }
  return text;
}

}  // namespace

TEST_CASE("the syntax of a command is parsed into the tree of its arguments") {
  CHECK(shape(parse_syntax("")) == "");
  CHECK(shape(parse_syntax("key item [item ...]")) == "key:key item:string+");
  CHECK(shape(parse_syntax("key [EXPANSION expansion] [NONSCALING]")) ==
        "key:key expansion:block=EXPANSION?(expansion:integer) nonscaling:pure-token=NONSCALING?");
  CHECK(shape(parse_syntax("[ASYNC | SYNC]")) == "async:oneof?(async:pure-token=ASYNC sync:pure-token=SYNC)");
  CHECK(shape(parse_syntax("parameter value [parameter value ...]")) ==
        "parameter:block+(parameter:string value:string)");
  CHECK(shape(parse_syntax("[command-name [command-name ...]]")) == "command-name:string?+");
  CHECK(shape(parse_syntax("<LIB-NAME libname | LIB-VER libver>")) ==
        "lib-name:oneof(lib-name:block=LIB-NAME(libname:string) lib-ver:block=LIB-VER(libver:string))");
}

}  // namespace syntax_test
