// What a request does with its keys where its options decide: for permissions, for COMMAND GETKEYSANDFLAGS,
// and for what a full disk or a full memory refuses. Each function takes words that may be wrong: what it
// does not know counts as a change.

#include <sepal/base/arguments.hpp>

#include "command/bloom/mirror_action.hpp"
#include "command/table/handlers.hpp"

namespace sepal::command {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::string_view reads = "RO access";
constexpr std::string_view reads_and_changes = "RW access update";
constexpr std::string_view overwrites = "OW update";

}  // namespace

// All operations are GET type offset, and OVERFLOW type may stand anywhere.
bool asks_bit_field(Words words) {
  constexpr std::size_t operations_at = 2;
  for (std::size_t at = operations_at; at < words.size(); ++at) {
    const bool gets = equal_ignoring_case(words[at], "GET");
    if (!gets && !equal_ignoring_case(words[at], "OVERFLOW")) return false;
    at += gets ? 2 : 1;
    if (at >= words.size()) return false;
  }
  return words.size() > operations_at;
}

KeyUse key_use_of_bit_field(Words words) {
  return {.access = asks_bit_field(words) ? reads : reads_and_changes};
}

// Only SET ... GET answers what was under the key.
KeyUse key_use_of_set(Words words) {
  constexpr std::size_t options_at = 3;
  for (std::size_t at = options_at; at < words.size(); ++at)
    if (equal_ignoring_case(words[at], "GET")) return {.access = reads_and_changes};
  return {.access = overwrites};
}

// Without options, GETEX is GET.
bool asks_get_ex(Words words) {
  constexpr std::size_t options_at = 2;
  return words.size() <= options_at;
}

bool asks_mirror(Words words) {
  return words.size() > 1 && mirror_action_of(words) == MirrorAction::tell;
}

// A mirror gives the target what clients add to the source, and COMMIT gives the source's name what the
// target has. So a client that changes a mirror must be allowed to read and to write both. Where the request
// does not name the target, the handler asks for that.
KeyUse key_use_of_mirror(Words words) {
  if (words.size() < 2) return {.count = 0};
  const MirrorAction action = mirror_action_of(words);
  if (action == MirrorAction::tell) return {.access = reads};
  const bool names_target = action == MirrorAction::begin || action == MirrorAction::wrong;
  return {.count = names_target ? std::size_t{2} : std::size_t{1}, .access = reads_and_changes};
}

bool frees_by_mirror(Words words, WallTime /*now*/) {
  return words.size() > 1 && mirror_action_of(words) == MirrorAction::abort;
}

}  // namespace sepal::command
