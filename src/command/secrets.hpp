// Which words of a request must not be shown: the slow log and MONITOR show "(redacted)" in their place, as
// the reference does.
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
  [[nodiscard]] bool has(std::size_t at) const;
  // The word, or what is shown in its place.
  [[nodiscard]] std::string_view shown(std::size_t at) const { return has(at) ? redacted : words_[at]; }

 private:
  enum class Kind : std::uint8_t { none, behind_name, behind_subcommand, of_parameter, behind_auth };

  static Kind kind_of(std::span<const std::string_view> words);

  std::span<const std::string_view> words_;
  Kind kind_;
};

}  // namespace sepal::command
