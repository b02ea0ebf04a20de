#include <sepal/base/arguments.hpp>
#include <sepal/base/syntax.hpp>
#include <sepal/base/word_list.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace sepal {
namespace {

// The type of an argument, by its name. A name that is not listed is a string.
constexpr std::pair<std::string_view, std::string_view> types[] = {
    {"key", "key"},
    {"newkey", "key"},
    {"error_rate", "double"},
    {"error", "double"},
    {"seconds", "integer"},
    {"milliseconds", "integer"},
    {"unix-time-seconds", "unix-time"},
    {"unix-time-milliseconds", "unix-time"},
    {"capacity", "integer"},
    {"count", "integer"},
    {"cursor", "integer"},
    {"expansion", "integer"},
    {"index", "integer"},
    {"numkeys", "integer"},
    {"maxage", "integer"},
    {"protover", "integer"},
    {"client-id", "integer"},
    {"pattern", "pattern"},
};

bool is_token(std::string_view word) {
  return word == upper_case(word);
}

SyntaxArgument single(std::string_view word) {
  if (is_token(word)) return {.name = lower_case(word), .type = "pure-token", .token = std::string(word)};
  const auto* const known =
      std::ranges::find(types, word, &std::pair<std::string_view, std::string_view>::first);
  return {.name = std::string(word), .type = known != std::end(types) ? known->second : "string"};
}

// Makes one argument of the arguments between two bars. Several become a block; a leading token names it.
// The caller has at least one argument.
SyntaxArgument joined(std::vector<SyntaxArgument> arguments) {
  if (arguments.size() == 1) return std::move(arguments.front());
  SyntaxArgument block{.name = arguments.front().name, .type = "block"};
  if (arguments.front().type == "pure-token") {
    block.token = arguments.front().token;
    arguments.erase(arguments.begin());
  }
  block.arguments = std::move(arguments);
  return block;
}

class Parser {
 public:
  explicit Parser(std::string_view syntax) {
    std::string spaced;  // with blanks around brackets and bars, which makes them words
    for (const char letter : syntax) {
      const bool bracket = std::string_view("[]<>|").find(letter) != std::string_view::npos;
      if (bracket) spaced.append(" ").append(1, letter).append(" ");
      if (!bracket) spaced.push_back(letter);
    }
    for_each_word(spaced, [&](std::string_view word) {
      if (!word.empty()) words_.emplace_back(word);
    });
  }

  // Parses up to the end, a bar or a closing bracket.
  std::vector<SyntaxArgument> sequence() {
    std::vector<SyntaxArgument> arguments;
    while (at_ < words_.size() && words_[at_] != "|" && words_[at_] != "]" && words_[at_] != ">") {
      if (words_[at_] == "[" && repeats()) {
        repeat(arguments);
      } else if (words_[at_] == "[" || words_[at_] == "<") {
        arguments.push_back(group());
      } else {
        arguments.push_back(single(words_[at_++]));
      }
    }
    return arguments;
  }

 private:
  // Whether the bracket at at_ encloses only words, of which the last is "...".
  // No test of the end: the syntax comes from the table of commands, and each bracket there is closed.
  [[nodiscard]] bool repeats() const {
    std::size_t end = at_ + 1;
    while (words_[end] != "]" && words_[end] != "[") ++end;
    return words_[end] == "]" && words_[end - 1] == "...";
  }

  // [a b ...]: the two arguments before it may be repeated, as one.
  void repeat(std::vector<SyntaxArgument>& arguments) {
    std::ptrdiff_t count = 0;
    for (++at_; words_[at_] != "..."; ++at_) ++count;
    at_ += 2;  // "..." and "]"
    // The arguments to be repeated have been parsed already, as single ones. They are taken back from the
    // end of the list.
    std::vector<SyntaxArgument> tail(std::make_move_iterator(arguments.end() - count),
                                     std::make_move_iterator(arguments.end()));
    arguments.erase(arguments.end() - count, arguments.end());
    SyntaxArgument repeated = joined(std::move(tail));
    repeated.repeated = true;
    arguments.push_back(std::move(repeated));
  }

  static SyntaxArgument one_of(std::vector<SyntaxArgument> choices) {
    std::string name = choices.front().name;
    return {.name = std::move(name), .type = "oneof", .arguments = std::move(choices)};
  }

  SyntaxArgument group() {
    const bool optional = words_[at_++] == "[";
    std::vector<SyntaxArgument> choices;
    choices.push_back(joined(sequence()));
    while (words_[at_] == "|") {
      ++at_;
      choices.push_back(joined(sequence()));
    }
    ++at_;  // the closing bracket
    SyntaxArgument made = choices.size() == 1 ? std::move(choices.front()) : one_of(std::move(choices));
    made.optional = optional;
    return made;
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<SyntaxArgument> parse_syntax(std::string_view syntax) {
  return Parser(syntax).sequence();
}

}  // namespace sepal
