// Counts the error replies of one worker by their first word: ERR, WRONGTYPE, NOAUTH, ...
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/command/run/context.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace sepal::command {

// The most distinct first words that are counted, as in the reference. The bound is for errors that a client
// can make begin with a word of its own; all other texts are Sepal's.
inline constexpr std::size_t error_words_max = 128;
static_assert(error_words_max > 0);

// Synchronised.
class WorkerStats::ErrorCounts {
 public:
  using Map = std::map<std::string, std::uint64_t, std::less<>>;

  void add(std::string_view error_text, std::uint64_t times) {
    const std::string_view word = error_text.substr(0, error_text.find(' '));
    const MutexLock lock(mutex_);
    if (const auto found = counts_.find(word); found != counts_.end()) {
      found->second += times;
    } else if (counts_.size() < error_words_max) {
      counts_.emplace(word, times);
    }
  }
  void add_to(Map& sums) {
    const MutexLock lock(mutex_);
    for (const auto& [word, count] : counts_) sums[word] += count;
  }
  void reset() {
    const MutexLock lock(mutex_);
    counts_.clear();
  }

 private:
  Mutex mutex_;  // Lock order: last.
  Map counts_ SEPAL_GUARDED_BY(mutex_);
};

}  // namespace sepal::command
