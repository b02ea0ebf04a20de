// A `*` needs no recursion: the matcher notes where the last `*` ends in the pattern, and where its bytes end
// in the text. If the rest of the pattern does not match there, the last `*` takes one byte more, and the
// rest is tried behind it. An earlier `*` is never tried again, because the last one can take every byte that
// the earlier one could. So the cost is at most pattern times text, for any number of stars. A recursion
// would try a pattern like `*a*a*a*b` in exponentially many ways.

#include <sepal/base/arguments.hpp>
#include <sepal/command/glob.hpp>

#include <utility>

namespace sepal::command {
namespace {

unsigned char folded(char byte, Case letters) {
  return static_cast<unsigned char>(letters == Case::ignored ? lower(byte) : byte);
}

// Matches one byte with the pattern's element at `at`, which is not a `*`. Moves `at` behind the element.
class Element {
 public:
  Element(std::string_view pattern, std::size_t& at, Case letters)
      : pattern_(pattern), at_(at), letters_(letters) {}

  bool takes(char byte) {
    const char first = pattern_[at_++];
    if (first == '?') return true;
    if (first == '[') return class_takes(folded(byte, letters_));
    // A backslash at the very end stands for itself.
    const char literal = first == '\\' && at_ < pattern_.size() ? pattern_[at_++] : first;
    return folded(literal, letters_) == folded(byte, letters_);
  }

 private:
  // Reads the class to its end even if a member has matched, because `at` must stand behind it.
  bool class_takes(unsigned char byte) {
    const bool negated = at_ < pattern_.size() && pattern_[at_] == '^';
    if (negated) ++at_;
    bool found = false;
    while (at_ < pattern_.size() && pattern_[at_] != ']') found = member_takes(byte) || found;
    if (at_ < pattern_.size()) ++at_;
    return found != negated;
  }

  bool member_takes(unsigned char byte) {
    if (pattern_[at_] == '\\' && at_ + 1 < pattern_.size()) {
      at_ += 2;
      return folded(pattern_[at_ - 1], letters_) == byte;
    }
    unsigned char from = folded(pattern_[at_], letters_);
    unsigned char to = from;
    // As in Redis, a `]` right behind the `-` is the end of the range and not of the class. A range may be
    // given backward.
    if (at_ + 2 < pattern_.size() && pattern_[at_ + 1] == '-') {
      to = folded(pattern_[at_ + 2], letters_);
      at_ += 2;
    }
    ++at_;
    if (from > to) std::swap(from, to);
    return from <= byte && byte <= to;
  }

  std::string_view pattern_;
  std::size_t& at_;
  Case letters_;
};

}  // namespace

bool matches(std::string_view pattern, std::string_view text, Case letters) {
  std::size_t in_pattern = 0;
  std::size_t in_text = 0;
  std::size_t behind_star = std::string_view::npos;  // where the last star ends; npos: no star yet
  std::size_t star_took_to = 0;
  while (in_text < text.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      behind_star = ++in_pattern;
      star_took_to = in_text;
      continue;
    }
    if (in_pattern < pattern.size() && Element(pattern, in_pattern, letters).takes(text[in_text])) {
      ++in_text;
      continue;
    }
    if (behind_star == std::string_view::npos) return false;
    in_pattern = behind_star;
    in_text = ++star_took_to;
  }
  // The text has ended: what is left of the pattern has to match nothing.
  while (in_pattern < pattern.size() && pattern[in_pattern] == '*') ++in_pattern;
  return in_pattern == pattern.size();
}

bool has_wildcard(std::string_view pattern) {
  return pattern.find_first_of("*?[") != std::string_view::npos;
}

}  // namespace sepal::command
