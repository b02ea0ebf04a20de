#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/strings/kind.hpp>
#include <sepal/value/image.hpp>
#include <sepal/writers/string_writer.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include "writers/recorded_add.hpp"

namespace sepal::writers {
namespace {

using keyspace::written_bytes_max;
using strings::String;
using value::ValuePtr;

void tell_written(Mutator& changes, DatabaseKey key, std::uint64_t offset, std::span<const std::byte> bytes) {
  do {
    const auto piece = bytes.first(std::min(bytes.size(), written_bytes_max));
    const auto head = strings::written_head(offset, piece.size());
    changes.told(true, keyspace::Changed{.key = key,
                                         .kind = value::Kind::string,
                                         .what = strings::written_change,
                                         .head = head,
                                         .bytes = piece});
    bytes = bytes.subspan(piece.size());
    offset += piece.size();
  } while (!bytes.empty());
}

// A string that is under no key yet, so that write() can still fail without a trace.
Result<void> write_new(Keyspace& keyspace, DatabaseKey key, std::uint64_t offset,
                       std::span<const std::byte> bytes) {
  const auto limits = keyspace.limits_of_new(key);
  if (!limits) return limits.error();
  const auto end = checked_add(offset, bytes.size());
  if (!end || *end > strings::string_bytes_max)
    return fail(Errc::too_large, "a string is longer than 512 MB");
  // The length was compared with the longest string above. So too_large can only mean that the memory is not
  // there.
  auto made = String::with_room(*end, *limits);
  if (!made) return made.error().code == Errc::too_large ? fail(Errc::memory_limit) : made.error();
  if ((*made)->bytes_to_touch(offset, bytes.size()) > limits->bytes_max) return fail(Errc::memory_limit);
  (*made)->write(offset, bytes);
  keyspace.insert(key, std::move(*made));
  return {};
}

}  // namespace

std::optional<bool> try_set_bit(Mutator& changes, DatabaseKey key, String& string,
                                std::uint64_t position) noexcept {
  changes.note_change();
  // A watch does not see bits that are set here.
  if (changes.keyspace().watches().client_count() != 0) return std::nullopt;
  if (changes.log() == nullptr) return string.try_set(position, nullptr);
  KeyRecorder recorder(*changes.log(), key, string);
  return string.try_set(position, &recorder);
}

bool try_set_bits(Mutator& changes, DatabaseKey key, String& string, std::span<const std::uint64_t> positions,
                  std::span<bool> were_set) noexcept {
  changes.note_change();
  if (changes.keyspace().watches().client_count() != 0) return false;
  if (changes.log() == nullptr) return string.try_set(positions, were_set, nullptr);
  KeyRecorder recorder(*changes.log(), key, string);
  return string.try_set(positions, were_set, &recorder);
}

Result<void> write(Keyspace& keyspace, DatabaseKey key, std::uint64_t offset,
                   std::span<const std::byte> bytes) {
  if (key.database >= keyspace::database_count) return fail(Errc::out_of_range, "there is no such database");
  value::Value* const present = keyspace.find(key);
  if (present == nullptr) return write_new(keyspace, key, offset, bytes);
  // What the string has already needs no room, and a copy that grows needs all of it.
  return keyspace.change(key, *present, [&]() -> Result<ValuePtr> {
    return value::as<String>(*present).write_or_grow(offset, bytes, keyspace.value_limits().bytes_max);
  });
}

Result<void> write(Mutator& changes, DatabaseKey key, std::uint64_t offset,
                   std::span<const std::byte> bytes) noexcept {
  auto written = write(changes.keyspace(), key, offset, bytes);
  if (!written) return written;
  tell_written(changes, key, offset, bytes);
  return {};
}

// A small string is told as what is adopted; a larger one as what is written.
Result<void> put_string(Mutator& changes, DatabaseKey key, strings::StringPtr string,
                        keyspace::Deadline deadline) noexcept {
  SEPAL_ASSERT(string != nullptr, "no string is put where one is expected");
  if (!changes.recording() || value::image_bytes(*string) <= keyspace::recorded_image_bytes_max)
    return changes.adopt(key, std::move(string), deadline);
  const bool replaces = changes.keyspace().find(key) != nullptr;
  // The string is read below, when the keyspace owns it.
  const strings::StringPtr kept = string;
  if (auto put = changes.keyspace().put(key, std::move(string), deadline); !put) return put;
  // Bytes that are written do not clear what is there. A replay must begin with no string, and without the
  // deadline of the old one.
  if (replaces) changes.told(true, keyspace::Removed{.key = key});
  for (std::uint64_t offset = 0; offset < kept->length(); offset += written_bytes_max) {
    const std::string piece = kept->text(offset, written_bytes_max);
    tell_written(changes, key, offset, std::as_bytes(std::span(piece)));
  }
  if (deadline != keyspace::no_deadline)
    changes.told(true, keyspace::Expires{.key = key, .deadline = deadline});
  return {};
}

std::uint64_t record_bytes_of_string(std::size_t key_bytes, std::uint64_t byte_count) {
  // A short string is recorded with the header of its image, and rounded up. It is told in one call, so the
  // room of two others is left for that.
  static_assert(strings::image_head_bytes + sizeof(std::uint64_t) <= 2 * keyspace::record_bytes_max);
  // What is expired, what is removed, and the deadline.
  constexpr std::uint64_t once = 3;
  const std::uint64_t calls = once + 1 + byte_count / keyspace::written_bytes_max;
  return calls * (keyspace::record_bytes_max + key_bytes) + byte_count;
}

}  // namespace sepal::writers
