// Finds, reads and changes the string under a key, for the handlers of strings.
#pragma once

#include <sepal/command/run/context.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/strings/string.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "command/keys/lookup.hpp"

namespace sepal::command {

// The mask of a bit in its byte: the first bit is the highest.
constexpr std::uint8_t mask_in_byte(std::uint64_t position) {
  return static_cast<std::uint8_t>(0x80U >> (position % 8));
}

// A position among so many elements. A negative one counts from the end; if it lies before the first element,
// it is that of the first.
[[nodiscard]] inline std::int64_t from_end(std::int64_t position, std::int64_t count) {
  return position < 0 ? std::max<std::int64_t>(position + count, 0) : position;
}

// What a handler of strings finds.
using FoundString = Found<strings::String>;
[[nodiscard]] inline std::uint64_t length_of(const FoundString& found) {
  return found.value == nullptr ? 0 : found.value->length();
}
[[nodiscard]] inline FoundString find_string(Context& context, std::string_view key) {
  return find_or_refuse<strings::String>(context, key);
}
// For requests that only read: also counts a hit or a miss.
[[nodiscard]] inline FoundString find_string_counted(Context& context, std::string_view key) {
  return find_counted_or_refuse<strings::String>(context, key);
}
// The same for a request that runs in parts: the first part counts.
[[nodiscard]] FoundString find_string_part(Context& context, std::string_view key);

// Answers an error, and returns true, if a string may not get so long.
bool refuse_length(Context& context, std::uint64_t offset, std::uint64_t byte_count);

// With the gate closed. After a crash, what is changed while this exists is there whole or not at all. Only
// one exists at a time. EXEC and scripts have begun a group already.
class StringGroup {
 public:
  explicit StringGroup(const Context& context);
  ~StringGroup();
  StringGroup(const StringGroup&) = delete;
  StringGroup& operator=(const StringGroup&) = delete;

 private:
  keyspace::WorkerLog* log_ = nullptr;
};

// With the gate closed. Writes bytes into the string under the key, as writers::write. Answers an error, and
// returns false, if that fails.
bool write_string(Context& context, std::string_view key, std::uint64_t offset,
                  std::span<const std::byte> bytes);

// What must be under a key when a string is put there.
enum class PutCondition : std::uint8_t { none, free, taken };

// What is put under a key, and how the client is told.
struct NewString {
  std::string_view key;
  std::string_view bytes;
  keyspace::Deadline deadline = keyspace::no_deadline;
  std::function<void(resp::Reply& reply)> answer = {};
  // The caller has found that the condition is true. It may be false when a job puts a long string: then the
  // key stays as it is, and `answer_otherwise` answers.
  PutCondition condition = PutCondition::none;
  std::function<void(resp::Reply& reply)> answer_otherwise = {};
  // Answer with the old string, or null (GETSET, SET GET). Overrides both answers above. A value of another
  // kind under the key: WRONGTYPE, and nothing changes.
  bool answers_old = false;
  bool in_group = false;  // the caller has a StringGroup
};
// Puts a string under a key, replacing what is there; a deadline that is past removes the key. Answers.
Next put_string(Context& context, NewString string);

// How many more bytes the strings of a reply may have (Limits in docs/protocol.md).
[[nodiscard]] std::uint64_t reply_room(const Context& context);
// Answers an error, and returns true, if a string of so many bytes has no room in the reply. A handler asks
// before it changes anything.
bool refuse_reply(Context& context, std::uint64_t byte_count);

// Answers bytes [offset, offset + byte_count) of the string, which lie within it, or an error if the reply
// has no room. Within EXEC and scripts all of them are copied at once. Else many bytes stay where they are
// until they leave: what clients write meanwhile may be among them or not. The string may lose its key before
// that.
Next answer_string(Context& context, const FoundString& found, std::uint64_t offset,
                   std::uint64_t byte_count);
// Bytes of a string from `offset` on, for a reply that leaves later. Holds the string.
[[nodiscard]] std::unique_ptr<const resp::Source> source_of(const Context& context, strings::String& string,
                                                            std::uint64_t offset = 0);

// Copies one more part of a string that a job is to put, while other clients run. False: there is more. A
// handler asks before it asks for the closed gate.
bool is_ready_to_put(Context& context, std::string_view bytes);

}  // namespace sepal::command
