// Knows the largest filters, how they are and how they were, for the metrics and the status page: a scrape
// must not walk over all keys.
//
// A thread of its own walks over the keys in short steps, each inside the gate, and keeps the largest filters
// whose keys match a pattern. Then it measures these filters, outside the gate. It pauses after each step,
// and for long after each round, so that it takes a small share of one core. It walks again only after a
// change of structure (Keyspace::structure_changes) or of the memory in use: a key comes or goes, a filter
// grows, a string is written.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/command/server/status_json.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "app/threads/filter_history.hpp"

namespace sepal::app {

// The longest key that is shown. Keys stand in every line of the metrics.
inline constexpr std::size_t watched_key_bytes_max = 256;

// Synchronised. Owns a thread.
class FilterWatch {
 public:
  using Filters = std::vector<command::SeenFilter>;
  struct Options {
    std::size_t filters_max = 100;  // 0: no thread
    std::string pattern = "*";      // as KEYS takes it
    // At least so long from the beginning of a round to the next.
    std::chrono::milliseconds round_min{2000};
  };

  // `side` is the side of the gate that the thread enters.
  FilterWatch(Gate& gate, std::size_t side, const keyspace::Keyspace& keyspace, Options options);
  ~FilterWatch();  // joins the thread
  FilterWatch(const FilterWatch&) = delete;
  FilterWatch& operator=(const FilterWatch&) = delete;

  // What the last finished round has found, largest first. Not null. Any thread.
  [[nodiscard]] std::shared_ptr<const Filters> seen() const;
  // Looks at one filter now, which takes up to about a millisecond. Its history is what the rounds have seen.
  // Nothing if there is no such filter, or if its key is not to be shown. Any thread, outside the gate.
  [[nodiscard]] std::optional<command::FilterDetail> look_at(std::uint32_t database,
                                                             const std::string& key) const;

 private:
  struct Candidate {
    std::uint64_t byte_count;
    std::uint32_t database;
    std::string key;
  };

  using Place = std::pair<std::uint32_t, std::string>;  // database and key
  using Histories = std::map<Place, FilterHistory>;

  void run();
  void round();
  void walk();
  void visit(std::uint32_t database, const std::vector<std::string>& keys);
  void keep(Candidate candidate);
  void measure_all();
  void remember(const Filters& seen);
  // Enters the gate. Empty if there is no such filter.
  [[nodiscard]] command::FilterLook begin_look(std::uint32_t database, const std::string& key) const;
  [[nodiscard]] std::vector<FilterHistory::Point> history_of(std::uint32_t database,
                                                             const std::string& key) const;
  // Waits after `worked`. False: the thread has to end.
  bool pause_after(std::chrono::nanoseconds worked);
  bool wait(std::chrono::nanoseconds duration);

  Gate& gate_;
  const std::size_t side_;
  const keyspace::Keyspace& keyspace_;
  const Options options_;

  mutable Mutex mutex_;  // Lock order: the innermost.
  Condition changed_;
  std::shared_ptr<const Filters> seen_ SEPAL_GUARDED_BY(mutex_) = std::make_shared<const Filters>();
  Histories histories_ SEPAL_GUARDED_BY(mutex_);
  bool stopping_ SEPAL_GUARDED_BY(mutex_) = false;

  // Confined to thread_.
  std::vector<Candidate> largest_;  // a heap, the smallest in front
  bool walked_ = false;
  std::uint64_t walked_at_ = 0;  // the count of structure changes before the last walk
  std::uint64_t walked_at_bytes_ = 0;
  bool ended_ = false;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace sepal::app
