#include "syntax.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "arguments.hpp"
#include "word_list.hpp"

namespace sepal::command {
namespace {

// What an argument's name says about its type; a string when it is not here.
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
    {"maxage", "integer"},
    {"protover", "integer"},
    {"client-id", "integer"},
    {"pattern", "pattern"},
};

bool is_token(std::string_view word) {
  return word == upper_case(word);
}

Argument plain(std::string_view word) {
  if (is_token(word)) return {.name = lower_case(word), .type = "pure-token", .token = std::string(word)};
  const auto* const known =
      std::ranges::find(types, word, &std::pair<std::string_view, std::string_view>::first);
  return {.name = std::string(word), .type = known != std::end(types) ? known->second : "string"};
}

// The arguments between two bars as one: a block when there are several, which a leading token names.
Argument joined(std::vector<Argument> arguments) {
  if (arguments.size() == 1) return std::move(arguments.front());
  Argument block{.name = arguments.front().name, .type = "block"};
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
    std::string spaced;  // so that brackets are words
    for (const char letter : syntax) {
      const bool bracket = std::string_view("[]<>|").find(letter) != std::string_view::npos;
      if (bracket) spaced.append(" ").append(1, letter).append(" ");
      if (!bracket) spaced.push_back(letter);
    }
    for_each_word(spaced, [&](std::string_view word) {
      if (!word.empty()) words_.emplace_back(word);
    });
  }

  // Up to the end, or to a bar or a closing bracket.
  std::vector<Argument> sequence() {
    std::vector<Argument> arguments;
    while (at_ < words_.size() && words_[at_] != "|" && words_[at_] != "]" && words_[at_] != ">") {
      if (words_[at_] == "[" && repeats()) {
        repeat(arguments);
      } else if (words_[at_] == "[" || words_[at_] == "<") {
        arguments.push_back(group());
      } else {
        arguments.push_back(plain(words_[at_++]));
      }
    }
    return arguments;
  }

 private:
  // Whether the bracket here encloses nothing but words, the last of them "...".
  [[nodiscard]] bool repeats() const {
    std::size_t end = at_ + 1;
    while (words_[end] != "]" && words_[end] != "[") ++end;
    return words_[end] == "]" && words_[end - 1] == "...";
  }

  // [a b ...]: the last two arguments, as one, may come again.
  void repeat(std::vector<Argument>& arguments) {
    std::ptrdiff_t count = 0;
    for (++at_; words_[at_] != "..."; ++at_) ++count;
    at_ += 2;  // "..." and "]"
    std::vector<Argument> tail(std::make_move_iterator(arguments.end() - count),
                               std::make_move_iterator(arguments.end()));
    arguments.erase(arguments.end() - count, arguments.end());
    Argument repeated = joined(std::move(tail));
    repeated.repeated = true;
    arguments.push_back(std::move(repeated));
  }

  Argument group() {
    const bool optional = words_[at_++] == "[";
    std::vector<Argument> choices;
    choices.push_back(joined(sequence()));
    while (words_[at_] == "|") {
      ++at_;
      choices.push_back(joined(sequence()));
    }
    ++at_;  // the closing bracket
    Argument made =
        choices.size() == 1
            ? std::move(choices.front())
            : Argument{.name = choices.front().name, .type = "oneof", .arguments = std::move(choices)};
    made.optional = optional;
    return made;
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<Argument> parse_syntax(std::string_view syntax) {
  return Parser(syntax).sequence();
}

}  // namespace sepal::command
