// What a BF.MIRROR asks for. Also for permissions: only MirrorAction::begin names a target.
#pragma once

#include <sepal/base/arguments.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace sepal::command {

enum class MirrorAction : std::uint8_t { tell, begin, end, commit, force, abort, wrong };

// `words` are a whole request, at least two words.
[[nodiscard]] inline MirrorAction mirror_action_of(std::span<const std::string_view> words) {
  constexpr std::size_t option_at = 2;
  constexpr std::size_t words_max = 4;
  if (words.size() == option_at) return MirrorAction::tell;
  // The words of options are no targets: a key with such a name has to be renamed first.
  const bool commit = equal_ignoring_case(words[option_at], "COMMIT");
  if (words.size() == words_max && commit && equal_ignoring_case(words[option_at + 1], "FORCE"))
    return MirrorAction::force;
  if (words.size() != option_at + 1) return MirrorAction::wrong;
  if (commit) return MirrorAction::commit;
  if (equal_ignoring_case(words[option_at], "OFF")) return MirrorAction::end;
  if (equal_ignoring_case(words[option_at], "ABORT")) return MirrorAction::abort;
  return MirrorAction::begin;
}

}  // namespace sepal::command
