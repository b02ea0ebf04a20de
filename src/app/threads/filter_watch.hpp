// Judges all filters, and knows how those that are shown are and were, for the metrics and the status page: a
// scrape must not walk over all keys (decisions/0057).
//
// A thread of its own walks over all keys in short steps, and looks at each filter: a small sample of its
// bits tells its state. It counts the states, and keeps the filters to show, of the keys that match a
// pattern: those in trouble, the worst first, and the largest. In each round it measures these, with more of
// their bits, and goes on with the walk for a while. A walk over many keys takes several rounds.
//
// It enters the gate for the names of some keys, or for one filter, and reads bits outside of it. It pauses
// after each step, and for long after each round, so that it takes a small share of one core. It does not
// walk while nothing changes.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/command/server/status_json.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "app/threads/filter_history.hpp"

namespace sepal::app {

// Synchronised. Owns a thread.
class FilterWatch {
 public:
  struct Options {
    // So many in trouble are shown, and so many of the largest; some are both.
    std::size_t filters_max = 100;
    std::string pattern = "*";  // as KEYS takes it
    // At least so long from the beginning of a round to the next; a round walks about so long.
    std::chrono::milliseconds round_min{2000};
    // A number that rises with each change of a value that the keyspace does not count (Keyspace::changes).
    // Inside the gate. Empty: each round may find changes.
    std::function<std::uint64_t()> value_changes{};
    // The thread calls it about so often, outside the gate. It may be empty.
    std::function<void()> tick{};
    std::chrono::nanoseconds tick_interval{0};
  };

  // `side` is the side of the gate that the thread enters.
  FilterWatch(Gate& gate, std::size_t side, const keyspace::Keyspace& keyspace, Options options);
  ~FilterWatch();  // joins the thread
  FilterWatch(const FilterWatch&) = delete;
  FilterWatch& operator=(const FilterWatch&) = delete;

  // What the last finished round has found: those in trouble first, the worst state first, then the others;
  // among equals the largest first. Not null. Any thread.
  [[nodiscard]] std::shared_ptr<const command::FiltersSeen> seen() const;
  // Looks at one filter now, which takes up to about a millisecond. Its history is what the rounds have seen.
  // Nothing if there is no such filter, or if its key is not to be shown. Any thread, outside the gate.
  [[nodiscard]] std::optional<command::FilterDetail> look_at(std::uint32_t database,
                                                             const std::string& key) const;

 private:
  using Place = std::pair<std::uint32_t, std::string>;  // database and key
  struct Candidate {
    command::FilterState state;
    std::uint64_t byte_count;
    Place place;
  };
  // The candidates that come first in an order, at most filters_max. A heap, the last of them in front.
  using Candidates = std::vector<Candidate>;
  // Changes of the keyspace, by which the thread knows that it has to walk.
  struct Changes {
    std::uint64_t keyspace = 0;
    std::uint64_t bytes = 0;
    std::uint64_t bytes_max = 0;
    std::uint64_t values = 0;
    friend bool operator==(const Changes&, const Changes&) = default;
  };
  // A look at all filters, as far as it has come.
  struct Walk {
    Changes begun_at;
    std::uint32_t database = 0;
    std::uint64_t cursor = 0;
    command::FilterCounts counts{};
    Candidates troubled{};
    Candidates largest{};
  };
  using Histories = std::map<Place, FilterHistory>;

  void run();
  void walk_until(SteadyTime until);
  [[nodiscard]] std::vector<std::string> next_keys();
  void judge(const std::string& key);
  void hide_keys(command::SeenFilter& seen) const;
  template <class Before>
  void keep(Candidates& all, const Candidate& candidate, const Before& before) const;
  void end_walk();
  void measure_all();
  void remember(const std::vector<command::SeenFilter>& seen);
  [[nodiscard]] Changes changes() const;
  // Enters the gate. Empty if there is no such filter.
  [[nodiscard]] command::FilterLook begin_look(std::uint32_t database, const std::string& key) const;
  [[nodiscard]] std::vector<FilterHistory::Point> history_of(std::uint32_t database,
                                                             const std::string& key) const;
  // Waits after `worked`. False: the thread has to end.
  bool pause_after(std::chrono::nanoseconds worked);
  bool wait(std::chrono::nanoseconds duration);
  [[nodiscard]] SteadyTime ticked();

  Gate& gate_;
  const std::size_t side_;
  const keyspace::Keyspace& keyspace_;
  const Options options_;

  mutable Mutex mutex_;  // Lock order: the innermost.
  Condition changed_;
  std::shared_ptr<const command::FiltersSeen> seen_ SEPAL_GUARDED_BY(mutex_) =
      std::make_shared<const command::FiltersSeen>();
  Histories histories_ SEPAL_GUARDED_BY(mutex_);
  bool stopping_ SEPAL_GUARDED_BY(mutex_) = false;

  // Confined to thread_.
  std::optional<Walk> walk_;  // the one that is under way
  // What the last whole walk has found.
  std::set<Place> shown_;
  command::FilterCounts counts_;
  std::optional<SteadyTime> judged_at_;
  Changes judged_;
  SteadyTime next_tick_{};
  bool ended_ = false;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace sepal::app
