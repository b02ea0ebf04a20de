// Makes requests from the templates of the command line.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "options.hpp"

namespace rload {

// xorshift64: good enough to spread keys, and costs nothing.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(88172645463325252ull ^ (seed * 0x9E3779B97F4A7C15ull)) {
    for (int i = 0; i < 8; ++i) next();
  }
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    return state_ ^= state_ << 17;
  }

 private:
  std::uint64_t state_;
};

// Makes requests from the commands' templates.
class RequestMaker {
 public:
  explicit RequestMaker(const Options& options)
      : random_(options.seed), range_(options.range), sequence_(options.sequence_start) {
    for (const auto& command : options.commands) {
      templates_.emplace_back();
      for (const std::string& word : command) templates_.back().push_back(parse(word));
    }
  }

  [[nodiscard]] bool uses_sequence() const {
    return any_word([](const Word& word) { return word.kind == 's'; });
  }
  // Whether all batches of a command are equal.
  [[nodiscard]] bool repeats_itself() const {
    return !any_word([](const Word& word) { return word.kind != 0; });
  }

  // A batch of requests of one command. The next batch is of the next command.
  std::string batch(int requests) {
    const Template& command = templates_[batch_count_++ % templates_.size()];
    std::string bytes;
    for (int i = 0; i < requests; ++i) append_request(command, bytes);
    return bytes;
  }

 private:
  // before{kind*repeat}after. With kind 0 there is only `before`, already encoded.
  struct Word {
    std::string before;
    std::string after;
    char kind = 0;
    std::size_t repeat = 1;
  };
  using Template = std::vector<Word>;

  template <typename Predicate>
  bool any_word(Predicate holds) const {
    return std::any_of(templates_.begin(), templates_.end(), [&](const Template& command) {
      return std::any_of(command.begin(), command.end(), holds);
    });
  }

  static Word parse(const std::string& text) {
    for (const char kind : {'r', 's'}) {
      const std::size_t open = text.find(std::string("{") + kind);
      const std::size_t close = open == std::string::npos ? open : text.find('}', open);
      if (close == std::string::npos) continue;
      Word word{.before = text.substr(0, open), .after = text.substr(close + 1), .kind = kind};
      if (text[open + 2] == '*') word.repeat = std::strtoull(text.c_str() + open + 3, nullptr, 10);
      return word;
    }
    Word word;
    append_header('$', text.size(), word.before);
    word.before.append(text).append("\r\n");
    return word;
  }

  void append_request(const Template& command, std::string& to) {
    std::size_t count = 0;
    for (const Word& word : command) count += word.repeat;
    append_header('*', count, to);
    for (const Word& word : command) {
      for (std::size_t i = 0; i < word.repeat; ++i) append_word(word, to);
    }
  }

  void append_word(const Word& word, std::string& to) {
    if (word.kind == 0) {
      to += word.before;
      return;
    }
    const std::uint64_t number = word.kind == 'r' ? random_.next() % range_ : sequence_++;
    char digits[std::numeric_limits<std::uint64_t>::digits10 + 1];
    const std::string_view text(digits, std::to_chars(digits, std::end(digits), number).ptr);
    append_header('$', word.before.size() + text.size() + word.after.size(), to);
    to.append(word.before).append(text).append(word.after).append("\r\n");
  }

  static void append_header(char type, std::size_t count, std::string& to) {
    char digits[std::numeric_limits<std::size_t>::digits10 + 1];
    to += type;
    to.append(digits, std::to_chars(digits, std::end(digits), count).ptr).append("\r\n");
  }

  Random random_;
  std::uint64_t range_;
  std::uint64_t sequence_;
  std::vector<Template> templates_;
  std::size_t batch_count_ = 0;
};

}  // namespace rload
