// The slow log: the last requests that took longer than slowlog-log-slower-than.
//
// The clock is not read around each request of a pipeline: requests of one command in a row are measured
// together (src/session/run_clock.hpp). If they took too long together, they are one entry, which says how
// many they were.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/mutex.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

// An entry has so many words of the request, each cut at so many bytes; words say what was left out.
inline constexpr std::size_t slow_words_max = 32;
inline constexpr std::size_t slow_word_bytes_max = 128;
static_assert(slow_words_max >= 2, "one word of the request, and one that says how many more there are");
// The log keeps no more entries than this, and no more memory, whatever slowlog-max-len says.
inline constexpr std::size_t slow_entries_max = 16 * 1024;
inline constexpr std::size_t slow_log_bytes_max = std::size_t{8} << 20;

struct SlowEntry {
  std::uint64_t id = 0;  // given by the log, from 0
  WallTime at{};
  std::chrono::microseconds duration{0};
  std::vector<std::string> words;
  std::string address;  // of the client
  std::string client_name;

  // The memory that it takes.
  [[nodiscard]] std::size_t byte_count() const;
};

// The words of an entry. `words` is not empty; `times`: so many requests were measured together, and this is
// the first of them. Secrets are not shown.
[[nodiscard]] std::vector<std::string> slow_words(std::span<const std::string_view> words,
                                                  std::uint64_t times);

// Synchronised.
class SlowLog {
 public:
  // Drops the oldest entries above `count_max`, slow_entries_max and slow_log_bytes_max.
  void add(SlowEntry entry, std::uint64_t count_max);
  // The newest `count` entries, the newest one first.
  [[nodiscard]] std::vector<SlowEntry> newest(std::uint64_t count) const;
  [[nodiscard]] std::size_t size() const;
  // Numbers go on behind a reset.
  void reset();

 private:
  mutable Mutex mutex_;                                     // Lock order: last.
  std::deque<SlowEntry> entries_ SEPAL_GUARDED_BY(mutex_);  // the newest one first
  std::size_t byte_count_ SEPAL_GUARDED_BY(mutex_) = 0;     // of them
  std::uint64_t next_id_ SEPAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sepal::command
