#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/bloom/filter/kind.hpp>
#include <sepal/value/image.hpp>
#include <sepal/writers/string_writer.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include "writers/recorded_add.hpp"

namespace sepal::writers {
namespace {

using bloom::BitString;
using keyspace::written_bytes_max;
using value::ValuePtr;

void tell_written(Mutator& changes, DatabaseKey key, std::uint64_t offset, std::span<const std::byte> bytes) {
  do {
    const auto piece = bytes.first(std::min(bytes.size(), written_bytes_max));
    const auto head = bloom::written_head(offset, piece.size());
    changes.told(true, keyspace::Changed{.key = key,
                                         .kind = value::Kind::string,
                                         .what = bloom::written_change,
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
  if (!end || *end > bloom::string_bytes_max) return fail(Errc::too_large, "a string is longer than 512 MB");
  // The length was compared with the longest string above. So too_large can only mean that the memory is not
  // there.
  auto made = BitString::with_room(*end, *limits);
  if (!made) return made.error().code == Errc::too_large ? fail(Errc::memory_limit) : made.error();
  BitString target(**made);
  if (target.bytes_to_touch(offset, bytes.size()) > limits->bytes_max) return fail(Errc::memory_limit);
  target.write(offset, bytes);
  keyspace.insert(key, std::move(*made));
  return {};
}

}  // namespace

std::optional<bool> try_set_bit(Mutator& changes, DatabaseKey key, const value::Value& string,
                                std::uint64_t position) noexcept {
  changes.note_change();
  // A watch does not see bits that are set here.
  if (changes.keyspace().watches().client_count() != 0) return std::nullopt;
  if (changes.log() == nullptr) return BitString(string).try_set(position, nullptr);
  KeyRecorder recorder(*changes.log(), key);
  return BitString(string).try_set(position, &recorder);
}

bool try_set_bits(Mutator& changes, DatabaseKey key, const value::Value& string,
                  std::span<const std::uint64_t> positions, std::span<bool> were_set) noexcept {
  changes.note_change();
  if (changes.keyspace().watches().client_count() != 0) return false;
  if (changes.log() == nullptr) return BitString(string).try_set(positions, were_set, nullptr);
  KeyRecorder recorder(*changes.log(), key);
  return BitString(string).try_set(positions, were_set, &recorder);
}

Result<void> write(Keyspace& keyspace, DatabaseKey key, std::uint64_t offset,
                   std::span<const std::byte> bytes) {
  if (key.database >= keyspace::database_count) return fail(Errc::out_of_range, "there is no such database");
  value::Value* const present = keyspace.find(key);
  if (present == nullptr) return write_new(keyspace, key, offset, bytes);
  // What the string has already needs no room, and a copy that grows needs all of it.
  return keyspace.change(key, *present, [&]() -> Result<ValuePtr> {
    return BitString(*present).write_or_grow(offset, bytes, keyspace.value_limits().bytes_max);
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
Result<void> put_string(Mutator& changes, DatabaseKey key, ValuePtr string,
                        keyspace::Deadline deadline) noexcept {
  SEPAL_ASSERT(string != nullptr && string->kind() == value::Kind::string,
               "another value is put where a string is expected");
  if (!changes.recording() || value::image_bytes(*string) <= keyspace::recorded_image_bytes_max)
    return changes.adopt(key, std::move(string), deadline);
  const bool replaces = changes.keyspace().find(key) != nullptr;
  // The string is read below, when the keyspace owns it.
  const ValuePtr kept = string;
  if (auto put = changes.keyspace().put(key, std::move(string), deadline); !put) return put;
  // Bytes that are written do not clear what is there. A replay must begin with no string, and without the
  // deadline of the old one.
  if (replaces) changes.told(true, keyspace::Removed{.key = key});
  const BitString bytes(*kept);
  for (std::uint64_t offset = 0; offset < bytes.length(); offset += written_bytes_max) {
    const std::string piece = bytes.text(offset, written_bytes_max);
    tell_written(changes, key, offset, std::as_bytes(std::span(piece)));
  }
  if (deadline != keyspace::no_deadline)
    changes.told(true, keyspace::Expires{.key = key, .deadline = deadline});
  return {};
}

std::uint64_t record_bytes_of_string(std::size_t key_bytes, std::uint64_t byte_count) {
  // A short string is recorded with the header of its image, and rounded up. It is told in one call, so the
  // room of two others is left for that.
  static_assert(bloom::image_bytes(1) + sizeof(std::uint64_t) <= 2 * keyspace::record_bytes_max);
  // What is expired, what is removed, and the deadline.
  constexpr std::uint64_t once = 3;
  const std::uint64_t calls = once + 1 + byte_count / keyspace::written_bytes_max;
  return calls * (keyspace::record_bytes_max + key_bytes) + byte_count;
}

}  // namespace sepal::writers
