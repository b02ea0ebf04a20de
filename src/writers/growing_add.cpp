// Adds inside the shared gate that let a filter grow. The worker holds the lock of the key, so one worker at
// a time lets a filter grow, and no worker removes it meanwhile. Other workers look items up and add them all
// the time: they find the new layer when it is published.
//
// A replay adds to the newest layer. So the record of a growth comes behind those of all adds to the layer
// before it, and before that of the first add to the new one:
//
//   1. The layer before it is full, so no further add changes it (Filter::find_room).
//   2. This worker records what it has added. It waits for the other workers' adds that are under way: the
//      record of each add that has filled the layer is in the journal then.
//   3. It appends the record of the growth, and publishes the layer.
#include <sepal/writers/bloom_writer.hpp>

#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>

#include "writers/recorded_add.hpp"

namespace sepal::writers {
namespace {

using Refusal = Filter::Refusal;

constexpr std::size_t piece_items_max = 256;

// Collects the new items of several pieces: each record repeats the key. The key's lock is held, so the
// filter is neither losing its key nor unrecorded.
class PiecesRecorder final : public value::AddRecorder {
 public:
  PiecesRecorder(keyspace::MutationLog& log, DatabaseKey key) : log_(log), key_(key) {}
  ~PiecesRecorder() { settle(); }
  PiecesRecorder(const PiecesRecorder&) = delete;
  PiecesRecorder& operator=(const PiecesRecorder&) = delete;

  [[nodiscard]] bool begin() override {
    if (!begun_) log_.begin_add();
    return begun_ = true;
  }
  void tell(std::span<const Fingerprint> added) override {
    if (fingerprints_.size() + added.size() > piece_items_max) {
      log_.added_some(key_, fingerprints_);
      fingerprints_.clear();
    }
    fingerprints_.insert(fingerprints_.end(), added.begin(), added.end());
  }
  void end(std::span<const Fingerprint> added) override { tell(added); }
  // What was added is in the record when this returns.
  void settle() {
    if (!begun_) return;
    log_.added(key_, fingerprints_);
    fingerprints_.clear();
    begun_ = false;
  }

 private:
  keyspace::MutationLog& log_;
  DatabaseKey key_;
  bool begun_ = false;
  boost::container::static_vector<Fingerprint, piece_items_max> fingerprints_;
};

// With the lock of the key.
class GrowingAdd {
 public:
  GrowingAdd(Mutator& changes, DatabaseKey key, Filter& filter)
      : changes_(changes), key_(key), filter_(filter) {
    if (changes.log() != nullptr) told_ = &recorder_.emplace(*changes.log(), key);
    if (keyspace::Follower* const follower = changes.keyspace().mirrors().follower_of(filter))
      told_ = &followed_.emplace(told_, *follower);
  }

  void add(std::span<const std::string_view> items, std::vector<Filter::AddOutcome>& outcomes) {
    std::array<bool, piece_items_max> added;
    while (!items.empty()) {
      const std::size_t count_max = std::min(items.size(), added.size());
      const auto count = static_cast<std::size_t>(std::clamp<std::uint64_t>(filter_.room(), 1, count_max));
      const auto some_added = std::span(added).first(count);
      if (filter_.try_add(items.first(count), some_added, told_)) {
        for (const bool is_new : some_added) outcomes.push_back({.added = is_new});
        items = items.subspan(count);
        continue;
      }
      // Other adds have taken room meanwhile.
      if (count > 1) continue;
      const Refusal refusal = make_room();
      if (refusal == Refusal::none) continue;
      outcomes.push_back({.refusal = refusal});
      if (refusal == Refusal::full) return;
      items = items.subspan(1);
    }
  }

 private:
  // After `none` another add is worth trying.
  Refusal make_room() {
    switch (filter_.find_room()) {
      case Filter::Room::some: return Refusal::none;
      case Filter::Room::claimed:
        // An add that holds a claim waits for no lock of a key, and for no other add.
        std::this_thread::yield();
        return Refusal::none;
      case Filter::Room::none: break;
    }
    Keyspace& keyspace = changes_.keyspace();
    const std::uint64_t bytes_before = filter_.byte_count();
    // What is free and what the filter has already: a growth is compared with the whole size of the filter.
    const Refusal refusal = filter_.grow(keyspace.value_limits(bytes_before), &plans_of(keyspace).memo,
                                         changes_.limbo(), [&](const bloom::LayerPlan& plan) { tell(plan); });
    if (refusal == Refusal::none) keyspace.resized(key_.database, filter_, bytes_before);
    return refusal;
  }

  void tell(const bloom::LayerPlan& plan) {
    keyspace::MutationLog* const log = changes_.log();
    if (log == nullptr) return;
    recorder_->settle();
    log->wait_for_adds();
    const auto record = bloom::grown_record(plan);
    changes_.tell_ahead(grown(key_, record));
    log->append();
  }

  Mutator& changes_;
  DatabaseKey key_;
  Filter& filter_;
  std::optional<PiecesRecorder> recorder_;  // Nothing: no record is kept.
  std::optional<FollowedRecorder> followed_;
  value::AddRecorder* told_ = nullptr;
};

}  // namespace

bool add_growing(Mutator& changes, DatabaseKey key, Filter& filter, std::span<const std::string_view> items,
                 std::vector<Filter::AddOutcome>& outcomes) noexcept {
  changes.note_change();
  outcomes.clear();
  keyspace::KeyPlace place = changes.keyspace().place_of(key);
  if (place.table == nullptr) return false;
  const Mutator::KeyLock lock(changes, place);
  Keyspace::look(place);
  if (place.value != &filter) return false;
  GrowingAdd(changes, key, filter).add(items, outcomes);
  return true;
}

}  // namespace sepal::writers
