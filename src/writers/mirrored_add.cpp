// Adds under the shared gate while there are mirrors. They are apart from other adds, which pay for mirrors
// with one comparison.
#include <sepal/writers/bloom_writer.hpp>

#include <algorithm>
#include <array>

#include "writers/recorded_add.hpp"

namespace sepal::writers {

namespace {

// As try_add() of recorded_add.hpp. A thread that makes the filter anew hears of its new items.
bool try_add_followed(Mutator& changes, DatabaseKey key, Filter& filter,
                      std::span<const std::string_view> items, std::span<bool> added) {
  return add_recorded(changes.log(), changes.keyspace().mirrors().follower_of(filter), key, filter,
                      [&](value::AddRecorder* recorder) { return filter.try_add(items, added, recorder); });
}

}  // namespace

// The target comes first, so at no moment does the record have an item of the source that the target lacks.
// It keeps what the source then refuses.
bool try_add_mirrored(Mutator& changes, DatabaseKey key, Filter& filter,
                      std::span<const std::string_view> items, std::span<bool> added) {
  if (!try_mirror(changes, filter, items)) return false;
  return try_add_followed(changes, key, filter, items, added);
}

bool try_mirror(Mutator& changes, const Filter& source, std::span<const std::string_view> items) noexcept {
  changes.note_change();
  const keyspace::Mirrors::Link* const link = changes.keyspace().mirrors().whole_from(source);
  if (link == nullptr) return true;
  // The answers of the target are for no client. They are read for note_target_knew() only, so a part of the
  // items at a time is enough.
  std::array<bool, bloom::recorded_items_max> added;
  while (!items.empty()) {
    const auto some = items.first(std::min(items.size(), added.size()));
    const auto some_added = std::span(added).first(some.size());
    if (!try_add_followed(changes, target_key(*link), target_of(*link), some, some_added)) return false;
    const auto added_count = static_cast<std::uint64_t>(std::ranges::count(some_added, true));
    changes.keyspace().note_value_changes(added_count);
    // Another worker may have added the item, and its record may still be on its way. If the client were
    // told first, a crash could lose an item that the client was told of.
    if (added_count < some.size()) changes.note_target_knew();
    items = items.subspan(some.size());
  }
  return true;
}

std::uint64_t record_bytes_of_mirror(const keyspace::Mirrors& mirrors, std::size_t item_count,
                                     std::uint32_t layers_max) {
  const std::size_t key_bytes = mirrors.key_bytes_max();
  if (layers_max == 0) return record_bytes_of_adds(key_bytes, item_count);
  // Whenever adds of the source are told, adds of the target are told before.
  const std::uint64_t calls_of_source = calls_of_adds_alone(item_count, layers_max);
  const std::uint64_t broken = keyspace::record_bytes_max + 2 * key_bytes;  // It names both ends.
  return record_bytes_of_adds_alone(key_bytes, item_count, layers_max) +
         calls_of_source * (keyspace::record_bytes_max + key_bytes) + broken;
}

}  // namespace sepal::writers
