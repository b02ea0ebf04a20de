// A `*` needs no recursion: the matcher notes where the last `*` ends in the pattern, and where its bytes end
// in the text. If the rest of the pattern does not match there, the last `*` takes one byte more, and the
// rest is tried behind it. An earlier `*` is never tried again, because the last one can take every byte that
// the earlier one could. So the cost is at most pattern times text, for any number of stars. A recursion
// would try a pattern like `*a*a*a*b` in exponentially many ways.

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/base/glob.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace sepal {
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

std::optional<bool> Matching::go_on(std::string_view pattern, std::string_view text, Case letters,
                                    std::size_t& bytes) {
  while (in_text_ < text.size()) {
    if (bytes == 0) return std::nullopt;
    if (in_pattern_ < pattern.size() && pattern[in_pattern_] == '*') {
      behind_star_ = ++in_pattern_;
      star_took_to_ = in_text_;
      --bytes;
      continue;
    }
    std::size_t behind = in_pattern_;  // the element that is tried
    const bool taken = behind < pattern.size() && Element(pattern, behind, letters).takes(text[in_text_]);
    bytes -= std::min(std::max<std::size_t>(behind - in_pattern_, 1), bytes);
    if (taken) {
      in_pattern_ = behind;
      ++in_text_;
    } else if (behind_star_ != no_star) {
      in_pattern_ = behind_star_;
      in_text_ = ++star_took_to_;
    } else {
      *this = {};
      return false;
    }
  }
  // The text has ended: what is left of the pattern has to match nothing.
  const bool matched = pattern.find_first_not_of('*', in_pattern_) == std::string_view::npos;
  *this = {};
  return matched;
}

bool matches(std::string_view pattern, std::string_view text, Case letters) {
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
  const std::optional<bool> matched = Matching().go_on(pattern, text, letters, bytes);
  SEPAL_ASSERT(matched.has_value(), "no comparison reads so many bytes");
  return *matched;
}

bool matches_name(std::string_view pattern, std::string_view name) {
  return pattern.size() <= name_pattern_bytes_max && matches(pattern, name, Case::ignored);
}

bool has_wildcard(std::string_view pattern) {
  return pattern.find_first_of("*?[") != std::string_view::npos;
}

}  // namespace sepal
