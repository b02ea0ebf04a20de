// Which words of a request must not be shown: the slow log, MONITOR and the log show "(redacted)" in their
// place. The reference hides those of AUTH, HELLO, MIGRATE, CONFIG SET and ACL; here also those in requests
// about such a request (ACL DRYRUN, COMMAND GETKEYS), and those that a script may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sepal::command {

inline constexpr std::string_view redacted = "(redacted)";

// The secrets of one request.
class Secrets {
 public:
  // `words` is not empty, and outlives this.
  explicit Secrets(std::span<const std::string_view> words);

  // Whether the word at an index is a secret.
  [[nodiscard]] bool has(std::size_t at) const { return at >= begin_ && has_inner(at - begin_); }
  // The word, or what is shown in its place.
  [[nodiscard]] std::string_view shown(std::size_t at) const { return has(at) ? redacted : all_words_[at]; }

 private:
  enum class Kind : std::uint8_t { none, from_word, of_parameter, behind_auth };

  void read();
  void hide_from(std::size_t at);
  [[nodiscard]] bool has_inner(std::size_t at) const;

  std::span<const std::string_view> all_words_;
  std::span<const std::string_view> words_;  // of the request that may have secrets
  std::size_t begin_ = 0;                    // where it begins among all words
  Kind kind_ = Kind::none;
  std::size_t first_ = 0;  // Kind::from_word: this one of `words_` and all behind it
};

}  // namespace sepal::command
