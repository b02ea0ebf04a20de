#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/bloom/window/growing_add.hpp>
#include <sepal/writers/window_writer.hpp>

#include <algorithm>
#include <utility>

#include "writers/recorded_add.hpp"

namespace sepal::writers {
namespace {

using bloom::WindowFilter;
using AddOutcomes = std::vector<Filter::AddOutcome>;

// What filters may take when neither a limit nor the machine's memory is known.
constexpr std::uint64_t unlimited_bytes = std::uint64_t{1} << 62;

// Entries and layers of one filter, told to the log in their order. `gathers`: the filter is under no key
// yet, and the gate is shared. The log may be null.
class WindowTeller {
 public:
  WindowTeller(keyspace::MutationLog* log, DatabaseKey key, const value::Limits& limits, bool gathers,
               keyspace::Follower* follower = nullptr)
      : log_(log), key_(key), limits_(limits), gathers_(gathers), follower_(follower) {}

  [[nodiscard]] const value::Limits& limits() const { return limits_; }
  void items(std::span<const Fingerprint> entries) {
    if (follower_ != nullptr) follower_->added(entries);
    for (; log_ != nullptr && !entries.empty();) {
      const auto some = entries.first(std::min(entries.size(), value::recorded_items_max));
      if (gathers_) {
        log_->gather_added(key_, some);
      } else {
        log_->begin_add();
        log_->added(key_, some);
      }
      entries = entries.subspan(some.size());
    }
  }
  void grown(std::uint64_t generation, const bloom::LanePlan& plan) {
    if (log_ == nullptr) return;
    const auto record = bloom::grown_record(generation, plan);
    const keyspace::Changed change{.key = key_,
                                   .kind = value::Kind::window,
                                   .what = bloom::window_grown_change,
                                   .head = record,
                                   .bytes = {}};
    if (gathers_) {
      log_->gather(change);
    } else {
      log_->record(change);
    }
  }

 private:
  keyspace::MutationLog* log_;
  DatabaseKey key_;
  value::Limits limits_;
  bool gathers_;
  keyspace::Follower* follower_;
};

// Null: no thread makes the filter anew.
keyspace::Follower* follower_of(Mutator& changes, const WindowFilter& filter) {
  const keyspace::Mirrors& mirrors = changes.keyspace().mirrors();
  return mirrors.adds_stay_alone() ? nullptr : mirrors.follower_of(filter);
}

Result<bloom::LanePlan> planned(const Result<value::Limits>& limits, const bloom::WindowOptions& options) {
  if (!limits) return limits.error();
  auto plan = bloom::plan_window(options, limits->bytes_max);
  if (plan || plan.error().code != Errc::too_large) return plan;
  // Clients are told whether the limit is too low, or the machine too small.
  if (!bloom::plan_window(options, unlimited_bytes)) return plan;
  return fail(Errc::memory_limit, plan.error().detail);
}

}  // namespace

bool try_add(Mutator& changes, DatabaseKey key, WindowFilter& filter, std::span<const std::string_view> items,
             WallTime now, std::span<bool> added) noexcept {
  changes.note_change();
  return add_recorded(
      changes.log(), follower_of(changes, filter), key, filter,
      [&](value::AddRecorder* recorder) { return filter.try_add(items, now, added, recorder); });
}

bool add_each(Mutator& changes, DatabaseKey key, WindowFilter& filter,
              std::span<const std::string_view> items, WallTime now, AddOutcomes& outcomes) noexcept {
  changes.note_change();
  outcomes.clear();
  return add_recorded(changes.log(), follower_of(changes, filter), key, filter,
                      [&](value::AddRecorder* recorder) {
                        return filter.add_each(items, now, filter.refusal(), outcomes, recorder);
                      });
}

Result<WindowFilter*> create(Mutator& changes, DatabaseKey key, const WindowCreation& creation,
                             AddOutcomes& outcomes) noexcept {
  Keyspace& keyspace = changes.keyspace();
  keyspace::KeyPlace place = keyspace.place_for(key);
  const Mutator::KeyLock lock(changes, place);
  changes.expire(place, creation.now);
  const auto limits = keyspace.limits_of_new(place);
  const auto plan = planned(limits, creation.options);
  if (!plan) return plan.error();
  auto made = WindowFilter::create(creation.options, *plan, creation.now);
  if (!made) return made.error();
  const auto record = bloom::made_record(**made);
  changes.tell_ahead(
      keyspace::Made{.key = key, .kind = value::Kind::window, .head = record, .deadline = creation.deadline});
  WindowTeller teller(changes.log(), key, *limits, changes.shared());
  bloom::add_with_growth(**made, creation.items, creation.now, teller, outcomes);
  return &static_cast<WindowFilter&>(changes.insert(place, std::move(*made), creation.deadline));
}

void add_growing(Mutator& changes, DatabaseKey key, WindowFilter& filter,
                 std::span<const std::string_view> items, WallTime now, AddOutcomes& outcomes) noexcept {
  changes.note_change();
  Keyspace& keyspace = changes.keyspace();
  // Accounted for one by one: a layer that comes may be as large as the one that goes.
  std::uint64_t bytes_before = filter.byte_count();
  if (auto dropped = filter.drop_old_layers()) {
    keyspace.dispose(std::move(dropped));
    keyspace.resized(key.database, filter, bytes_before);
    bytes_before = filter.byte_count();
  }
  WindowTeller teller(changes.log(), key, keyspace.value_limits(bytes_before), false,
                      follower_of(changes, filter));
  bloom::add_with_growth(filter, items, now, teller, outcomes);
  keyspace.resized(key.database, filter, bytes_before);
}

}  // namespace sepal::writers
