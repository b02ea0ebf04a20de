// Finds, reads and changes the string under a key, for the handlers of strings.
#pragma once

#include <sepal/command/dispatcher.hpp>
#include <sepal/filter/bit_string.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace sepal::command {

// A longer string is put under its key by a job outside the workers, so that no client waits for it. It is
// not taken in a transaction or a script.
inline constexpr std::uint64_t string_at_once_max = std::uint64_t{1} << 20;

// What a key names, for a handler of strings.
struct FoundString {
  const filter::Filter* value = nullptr;  // null: the key names nothing
  bool is_filter = false;                 // then WRONGTYPE has been answered, and `value` is null

  [[nodiscard]] filter::BitString string() const { return filter::BitString(*value); }
  [[nodiscard]] std::uint64_t length() const { return value == nullptr ? 0 : string().length(); }
};
[[nodiscard]] FoundString find_string(Context& context, std::string_view key);
// For requests that only read: also counts a hit or a miss.
[[nodiscard]] FoundString find_string_counted(Context& context, std::string_view key);

// Answers an error, and returns true, if a string may not get so long.
bool refuse_length(Context& context, std::uint64_t offset, std::uint64_t byte_count);

// With the gate closed. Writes bytes into the string under the key, as Mutator::write. Answers an error, and
// returns false, if that fails.
bool write_string(Context& context, std::string_view key, std::uint64_t offset,
                  std::span<const std::byte> bytes);

// What is put under a key, and how the client is told.
struct NewString {
  std::string_view key;
  std::string_view bytes;
  keyspace::Deadline deadline = keyspace::no_deadline;
  std::function<void(resp::Reply& reply)> answer;
};
// Puts a string under a key, replacing what is there; a deadline that is past removes the key. Answers.
Next put_string(Context& context, NewString string);

// Appends the whole string as a bulk.
void append_string(Context& context, const FoundString& found);

}  // namespace sepal::command
