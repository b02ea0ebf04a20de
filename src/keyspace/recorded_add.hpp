// An add under the shared gate, told to a log.
#pragma once

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/keyspace/mirrors.hpp>
#include <sepal/keyspace/mutation_log.hpp>

#include <span>
#include <string_view>

namespace sepal::keyspace {

// A filter's recorder for the log, which needs the key too.
class KeyRecorder final : public bloom::AddRecorder {
 public:
  KeyRecorder(MutationLog& log, DatabaseKey key) : log_(log), key_(key) {}
  void begin() override { log_.begin_add(); }
  void end(std::span<const Fingerprint> added) override { log_.added(key_, added); }

 private:
  MutationLog& log_;
  DatabaseKey key_;
};

// As Filter::try_add. The log may be null.
[[nodiscard]] inline bool try_add(MutationLog* log, DatabaseKey key, bloom::Filter& filter,
                                  std::span<const std::string_view> items, std::span<bool> added) {
  // The filter calls begin() before it sets the first bit, and end() behind each piece of new items
  // (MutationLog).
  if (log == nullptr) return filter.try_add(items, added);
  KeyRecorder recorder(*log, key);
  return filter.try_add(items, added, &recorder);
}

// How often Mutator::add_alone(), with what goes before it in a request, tells a log of a filter without a
// mirror.
[[nodiscard]] std::uint64_t calls_of_adds_alone(std::size_t item_count, std::uint32_t layers_max);

// Valid until an end of the mirror is renamed.
[[nodiscard]] inline DatabaseKey target_key(const Mirrors::Link& link) {
  return {.database = link.mirror.database, .key = link.mirror.target};
}

}  // namespace sepal::keyspace
