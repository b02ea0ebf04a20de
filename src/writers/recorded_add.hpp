// An add under the shared gate, told to a log.
#pragma once

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/kind/kind.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <optional>
#include <span>
#include <string_view>

namespace sepal::writers {

// A filter's recorder for the log, which needs the key too.
class KeyRecorder final : public value::AddRecorder {
 public:
  // The key names the value.
  KeyRecorder(keyspace::MutationLog& log, DatabaseKey key, const value::Value& value)
      : log_(log), key_(key), value_(value) {}
  [[nodiscard]] bool begin() override {
    log_.begin_add();
    if (!value_.held_or_unrecorded()) [[likely]]
      return true;
    if (value_.unrecorded()) log_.append_others();
    if (!value_.held()) return true;
    log_.added(key_, {});
    return false;
  }
  void tell(std::span<const Fingerprint> added) override { log_.added_some(key_, added); }
  void end(std::span<const Fingerprint> added) override { log_.added(key_, added); }

 private:
  keyspace::MutationLog& log_;
  DatabaseKey key_;
  const value::Value& value_;
};

// Tells a recorder, which may be null, and the thread that makes the filter anew.
class FollowedRecorder final : public value::AddRecorder {
 public:
  FollowedRecorder(value::AddRecorder* recorder, keyspace::Follower& follower)
      : recorder_(recorder), follower_(follower) {}
  [[nodiscard]] bool begin() override { return recorder_ == nullptr || recorder_->begin(); }
  void tell(std::span<const Fingerprint> added) override {
    follower_.added(added);
    if (recorder_ != nullptr) recorder_->tell(added);
  }
  void end(std::span<const Fingerprint> added) override {
    follower_.added(added);
    if (recorder_ != nullptr) recorder_->end(added);
  }

 private:
  value::AddRecorder* recorder_;
  keyspace::Follower& follower_;
};

// Calls add(recorder) for an add to the value that the key names. The log and the follower may be null, and
// so may the recorder.
template <class Add>
[[nodiscard]] bool add_recorded(keyspace::MutationLog* log, keyspace::Follower* follower, DatabaseKey key,
                                const value::Value& value, const Add& add) {
  std::optional<KeyRecorder> recorder;
  if (log != nullptr) recorder.emplace(*log, key, value);
  value::AddRecorder* const to_log = recorder ? &*recorder : nullptr;
  if (follower == nullptr) return add(to_log);
  FollowedRecorder followed(to_log, *follower);
  return add(&followed);
}

// As Filter::try_add. The log may be null.
[[nodiscard]] inline bool try_add(keyspace::MutationLog* log, DatabaseKey key, Filter& filter,
                                  std::span<const std::string_view> items, std::span<bool> added) {
  if (log == nullptr) return filter.try_add(items, added);
  KeyRecorder recorder(*log, key, filter);
  return filter.try_add(items, added, &recorder);
}

[[nodiscard]] inline bloom::SharedPlans& plans_of(const Keyspace& keyspace) {
  // The row of filters has made it.
  return static_cast<bloom::SharedPlans&>(*keyspace.state_of(value::Kind::bloom));
}

// The record is bloom::grown_record().
[[nodiscard]] inline keyspace::Changed grown(DatabaseKey key, std::span<const std::byte> record) {
  return {.key = key, .kind = value::Kind::bloom, .what = bloom::grown_change, .head = record, .bytes = {}};
}

// How often add_alone() or add_growing(), with what goes before it in a request, tells a log of a filter
// without a mirror.
[[nodiscard]] std::uint64_t calls_of_adds_alone(std::size_t item_count, std::uint32_t layers_max);

// try_add() of bloom_writer.hpp while there are mirrors.
[[nodiscard]] bool try_add_mirrored(Mutator& changes, DatabaseKey key, Filter& filter,
                                    std::span<const std::string_view> items, std::span<bool> added);

// Only filters have mirrors.
[[nodiscard]] inline Filter& target_of(const keyspace::Mirrors::Link& link) {
  return static_cast<Filter&>(*link.target);
}
// Valid until an end of the mirror is renamed.
[[nodiscard]] inline DatabaseKey target_key(const keyspace::Mirrors::Link& link) {
  return {.database = link.mirror.database, .key = link.mirror.target};
}

}  // namespace sepal::writers
