// The rules, as clients know them from Redis:
//
//   - Words are separated by blanks: space, tab, CR, LF. Vertical tab and form feed are blanks between words
//     and after a closing quote, but do not end a word.
//   - "..." understands \n \r \t \a \b, \xHH with two hex digits, and takes any other character behind a
//     backslash as itself. '...' understands \' alone.
//   - A quote may open inside a word, but a closing quote ends the word: a blank or the end must follow.
//   - A NUL is a byte like any other. (The reference takes it for the end of its string and waits for ever.)
#include "resp/inline_request.hpp"

#include <cstddef>

namespace sepal::resp {
namespace {

constexpr bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
constexpr bool ends_word(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr char unescaped(char c) {
  switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'a': return '\a';
    case 'b': return '\b';
    default: return c;
  }
}

class Splitter {
 public:
  Splitter(std::string_view line, std::string& unquoted) : line_(line), unquoted_(unquoted) {}

  bool skip_blanks() {
    while (at_ < line_.size() && is_blank(line_[at_])) ++at_;
    return at_ < line_.size();
  }

  // The word that begins here; false when its quotes are not balanced.
  bool take_word(std::string_view& word) {
    const std::size_t begin = at_;
    while (at_ < line_.size() && !ends_word(line_[at_]) && !is_quote(line_[at_])) ++at_;
    const std::string_view plain = line_.substr(begin, at_ - begin);
    if (at_ == line_.size() || !is_quote(line_[at_])) {
      word = plain;
      return true;
    }
    // Quotes may change the bytes, so such a word is built up in `unquoted_`, with what stood before the
    // quote.
    const std::size_t stored_at = unquoted_.size();
    unquoted_.append(plain);
    const char quote = line_[at_++];
    if (!(quote == '"' ? take_double_quoted() : take_single_quoted())) return false;
    word = std::string_view(unquoted_).substr(stored_at);
    return at_ == line_.size() || is_blank(line_[at_]);
  }

 private:
  static constexpr bool is_quote(char c) { return c == '"' || c == '\''; }

  bool take_double_quoted() {
    while (at_ < line_.size()) {
      const char c = line_[at_++];
      if (c == '"') return true;
      if (c == '\\' && at_ < line_.size()) {
        unquoted_.push_back(take_escape());
      } else {
        unquoted_.push_back(c);
      }
    }
    return false;
  }

  char take_escape() {
    // Without two hex digits behind it, \x is an x.
    if (line_[at_] == 'x' && line_.size() - at_ > 2) {
      const int high = hex_digit(line_[at_ + 1]);
      const int low = hex_digit(line_[at_ + 2]);
      if (high >= 0 && low >= 0) {
        at_ += 3;
        return static_cast<char>(16 * high + low);
      }
    }
    return unescaped(line_[at_++]);
  }

  bool take_single_quoted() {
    while (at_ < line_.size()) {
      char c = line_[at_++];
      if (c == '\'') return true;
      if (c == '\\' && at_ < line_.size() && line_[at_] == '\'') c = line_[at_++];
      unquoted_.push_back(c);
    }
    return false;
  }

  std::string_view line_;
  std::string& unquoted_;
  std::size_t at_ = 0;
};

}  // namespace

bool split_inline(std::string_view line, Words& words, std::string& unquoted) {
  words.clear();
  unquoted.clear();
  // Unquoting never lengthens, so with this much room the views into `unquoted` stay valid.
  if (line.find_first_of("\"'") != std::string_view::npos) unquoted.reserve(line.size());
  Splitter splitter(line, unquoted);
  while (splitter.skip_blanks()) {
    std::string_view word;
    if (!splitter.take_word(word)) return false;
    words.push_back(word);
  }
  return true;
}

}  // namespace sepal::resp
