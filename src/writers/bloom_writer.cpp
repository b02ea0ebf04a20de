// How the filters' books are kept: an add that grows the filter changes its memory, which Keyspace::resized()
// counts; a new filter is inserted. Whatever is counted is told behind it.
#include <sepal/base/assert.hpp>
#include <sepal/bloom/kind/kind.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include "writers/recorded_add.hpp"

namespace sepal::writers {
namespace {

using keyspace::MirrorState;
using keyspace::MutationLog;

// What a filter may take when neither a limit nor the machine's memory is known.
constexpr std::uint64_t unbounded_bytes = std::uint64_t{1} << 62;

// The caller has asked Filter::in_bitmap().
// Null: the filter is under no key yet, so no account has it.
Filter::AddOutcome add_fingerprint(Keyspace& keyspace, const std::uint32_t* database, Filter& filter,
                                   const Fingerprint& item) {
  // An add that needs no growth leaves the account of bytes as it is.
  bool added = false;
  if (filter.try_add(item, added)) return {.added = added};
  const std::uint64_t bytes_before = filter.byte_count();
  // The limit is what is free and what the filter has already, because a growth is compared with the whole
  // size of the filter.
  const std::uint64_t bytes_held = database == nullptr ? 0 : bytes_before;
  const auto outcome = filter.add_alone(item, keyspace.value_limits(bytes_held), &plans_of(keyspace).memo);
  SEPAL_ASSERT(filter.byte_count() >= bytes_before, "a filter has become smaller by an add");
  if (database != nullptr) keyspace.resized(*database, filter, bytes_before);
  return outcome;
}

// Adds with the gate closed, or to a filter that is under no key yet. They are told to the log together, a
// few at a time. Without a log they are not told. A replay repeats the records in their order, so that order
// matters:
//
//   - Items are told after the layer that counts them, and before a newer layer.
//   - Items of a mirror's target are told before the same items of its source. So a journal that ends in
//     between has no item of the source that the target lacks (decisions/0014).
class AddsAlone {
 public:
  static constexpr std::size_t told_together_max = 32;

  AddsAlone(Keyspace& keyspace, MutationLog* log, DatabaseKey key, Filter& filter)
      : keyspace_(keyspace),
        log_(log),
        key_(key),
        filter_(filter),
        follower_(keyspace.mirrors().follower_of(filter)),
        layers_(filter.layer_count()) {}

  // The filter is under no key yet. `shared`: so is the gate.
  void of_new_filter(bool shared) {
    database_ = nullptr;
    gathers_ = shared;
  }

  // Flush `earlier` first: the journal gets the target's items before the source's.
  void tell_after(AddsAlone& earlier) { earlier_ = &earlier; }

  Filter::AddOutcome add(std::string_view item) {
    if (filter_.in_bitmap(item)) return {};
    const Fingerprint fingerprint = filter_.fingerprint(item);
    // An add that was refused may still have made the filter grow, so note() looks at the layers in any
    // case.
    const auto outcome = add_fingerprint(keyspace_, database_, filter_, fingerprint);
    if (follower_ != nullptr && outcome.added) follower_->added({&fingerprint, 1});
    if (log_ != nullptr) note(fingerprint, outcome.added);
    return outcome;
  }
  void tell() {
    if (fingerprints_.empty()) return;
    SEPAL_ASSERT(log_ != nullptr, "items wait to be told, and there is no log");
    if (earlier_ != nullptr) earlier_->tell();
    if (gathers_) {
      log_->gather_added(key_, fingerprints_);
      return fingerprints_.clear();
    }
    // No other worker has to wait for the end of this add. The pair is called because added() ends what
    // begin_add() began.
    log_->begin_add();
    log_->added(key_, fingerprints_);
    fingerprints_.clear();
  }

 private:
  // Called after each add. The new layer is told before the item that made the filter grow.
  void note(const Fingerprint& fingerprint, bool added) {
    // The items that wait belong to the older layers, so they are told first.
    if (filter_.layer_count() != layers_) {
      tell();
      layers_ = filter_.layer_count();
      const auto record = bloom::grown_record(filter_.newest_layer().plan());
      const keyspace::Changed change = grown(key_, record);
      if (gathers_) {
        log_->gather(change);
      } else {
        log_->record(change);
      }
    }
    if (!added) return;
    // One record for many items: told one by one, each would repeat the key.
    if (fingerprints_.size() == told_together_max) tell();
    fingerprints_.push_back(fingerprint);
  }

  Keyspace& keyspace_;
  MutationLog* log_;
  DatabaseKey key_;
  const std::uint32_t* database_ = &key_.database;
  bool gathers_ = false;
  Filter& filter_;
  keyspace::Follower* const follower_;
  AddsAlone* earlier_ = nullptr;
  std::uint32_t layers_;
  boost::container::static_vector<Fingerprint, told_together_max> fingerprints_;
};

MirrorState state_after(Filter::Refusal refusal) {
  switch (refusal) {
    case Filter::Refusal::full: return MirrorState::full;
    case Filter::Refusal::layer_limit: return MirrorState::layer_limit;
    default: return MirrorState::no_memory;
  }
}

// A filter is too large for the rest of a limit, or for any machine. Clients are told which: a second plan,
// without a limit, tells the two apart.
Error refusal_of(const Keyspace& keyspace, const Error& error, const bloom::FilterOptions& options) {
  if (error.code != Errc::too_large) return error;
  const value::Limits unbounded{.bytes_max = unbounded_bytes, .layers_max = keyspace.options().layers_max};
  if (!Filter::plan(options, unbounded, &plans_of(keyspace).memo)) return error;
  return fail(Errc::memory_limit, error.detail);
}

// Many filters are made with the options of the one before, so a worker keeps its plan, and what is recorded.
struct MadeLast {
  bloom::FilterPlan plan;
  std::array<std::byte, bloom::made_bytes> record;  // made_record(plan)
};
thread_local std::optional<MadeLast> made_last;

// A filter under no key, and its plan in `made_last`.
Result<bloom::FilterPtr> make(const Keyspace& keyspace, const Result<value::Limits>& limits,
                              const bloom::FilterOptions& options) {
  if (!limits) return limits.error();
  const bool known = made_last && made_last->plan.options == options;
  if (!known || made_last->plan.byte_count > limits->bytes_max) {
    const auto planned = Filter::plan(options, *limits, &plans_of(keyspace).memo);
    if (!planned) return refusal_of(keyspace, planned.error(), options);
    made_last.emplace(MadeLast{.plan = *planned, .record = bloom::made_record(*planned)});
  }
  // create() checks no limit. The plan, new or known, has just been compared with the limits.
  return Filter::create(made_last->plan);
}

void break_mirror(Mutator& changes, DatabaseKey source, MirrorState state) {
  // The mirror stays, broken, until a client ends it: so no client takes its target for complete
  // (decisions/0014).
  changes.keyspace().set_mirror_state(source, state);
  const value::Value* const filter = changes.keyspace().find(source);
  const keyspace::Mirrors::Link* const link =
      filter == nullptr ? nullptr : changes.keyspace().mirrors().from(*filter);
  SEPAL_ASSERT(link != nullptr && state != MirrorState::whole, "a mirror breaks that is not there");
  const keyspace::Mirror& broken = link->mirror;
  changes.told(true, keyspace::Mirrored{.key = source,
                                        .target = broken.target,
                                        .state = broken.state,
                                        .items_before = broken.items_before});
}

}  // namespace

void plan_ahead(const Keyspace& keyspace, const bloom::FilterOptions& options) {
  // Only the memo matters. An error comes again, and is told, when the filter is created.
  (void)Filter::plan(options, keyspace.value_limits(), &plans_of(keyspace).memo);
}

void plan_growth_ahead(const Keyspace& keyspace, const Filter& filter) {
  bloom::PlanMemo& memo = plans_of(keyspace).memo;
  filter.plan_growth(memo);
  if (const keyspace::Mirrors::Link* const link = keyspace.mirrors().whole_from(filter))
    target_of(*link).plan_growth(memo);
}

Result<Filter*> create(Keyspace& keyspace, DatabaseKey key, const bloom::FilterOptions& options) {
  auto made = make(keyspace, keyspace.limits_of_new(key), options);
  if (!made) return made.error();
  return &static_cast<Filter&>(keyspace.insert(key, std::move(*made)));
}

// The items are added, and all is told, before another worker can find the filter.
Result<Filter*> create(Mutator& changes, DatabaseKey key, const Creation& creation,
                       std::vector<Filter::AddOutcome>& outcomes) noexcept {
  Keyspace& keyspace = changes.keyspace();
  keyspace::KeyPlace place = keyspace.place_for(key);
  const Mutator::KeyLock lock(changes, place);
  changes.expire(place, creation.now);
  auto made = make(keyspace, keyspace.limits_of_new(place), creation.options);
  if (!made) return made.error();
  changes.tell_ahead(keyspace::Made{
      .key = key, .kind = value::Kind::bloom, .head = made_last->record, .deadline = creation.deadline});
  AddsAlone adds(keyspace, changes.log(), key, **made);
  adds.of_new_filter(changes.shared());
  outcomes.clear();
  for (const std::string_view item : creation.items) {
    outcomes.push_back(adds.add(item));
    if (outcomes.back().refusal == Filter::Refusal::full) break;
  }
  adds.tell();
  return &static_cast<Filter&>(changes.insert(place, std::move(*made), creation.deadline));
}

Result<Filter*> create(Mutator& changes, DatabaseKey key, const bloom::FilterOptions& options) noexcept {
  std::vector<Filter::AddOutcome> outcomes;
  return create(changes, key, {.options = options}, outcomes);
}

bool try_add(Mutator& changes, DatabaseKey key, Filter& filter, std::span<const std::string_view> items,
             std::span<bool> added) noexcept {
  changes.note_change();
  // This test is all that mirrors cost an add while there are none.
  if (!changes.keyspace().mirrors().adds_stay_alone())
    return try_add_mirrored(changes, key, filter, items, added);
  return try_add(changes.log(), key, filter, items, added);
}

Filter::AddOutcome add_alone(Keyspace& keyspace, std::uint32_t database, Filter& filter,
                             std::string_view item) {
  if (filter.in_bitmap(item)) return {};
  return add_fingerprint(keyspace, &database, filter, filter.fingerprint(item));
}

// An item goes to the filter first, and then to the target of its mirror. The log hears of them in the other
// order (tell_after). The target also gets what the filter refuses: it is to replace the filter, and the
// client's program may have the item already (decisions/0014). If the target refuses an item, the mirror
// breaks, and the rest of the items goes to the filter alone.
std::size_t add_alone(Mutator& changes, DatabaseKey key, Filter& filter,
                      std::span<const std::string_view> items,
                      std::vector<Filter::AddOutcome>& outcomes) noexcept {
  changes.note_change();
  outcomes.clear();
  const keyspace::Mirrors::Link* const link = changes.keyspace().mirrors().whole_from(filter);
  AddsAlone adds(changes.keyspace(), changes.log(), key, filter);
  std::optional<AddsAlone> of_target;
  if (link != nullptr)
    adds.tell_after(
        of_target.emplace(changes.keyspace(), changes.log(), target_key(*link), target_of(*link)));
  std::size_t mirrored_count = 0;
  for (const std::string_view item : items) {
    outcomes.push_back(adds.add(item));
    // The state is read anew each time: break_mirror() changes it in the loop. The link itself stays.
    if (link != nullptr && link->mirror.state == MirrorState::whole) {
      const Filter::AddOutcome of_mirror = of_target->add(item);
      if (of_mirror.added) changes.keyspace().note_value_changes(1);
      if (of_mirror.refusal == Filter::Refusal::none) {
        ++mirrored_count;
        continue;
      }
      break_mirror(changes, key, state_after(of_mirror.refusal));
    }
    // A filter that is full takes no further item either, so the caller gets no further outcome. Other
    // refusals are of this item: a later one may be known already.
    if (outcomes.back().refusal == Filter::Refusal::full) break;
  }
  // Also where the source has nothing to tell: it may have known or refused all items that the target lacked.
  if (of_target) of_target->tell();
  adds.tell();
  return mirrored_count;
}

std::uint64_t record_bytes_of_adds(std::size_t key_bytes, std::size_t item_count) {
  // A filter tells its new items in pieces. It ends a piece when the next window might not fit, so each
  // piece but the last is more than half full.
  const std::uint64_t calls = 1 + item_count / (bloom::recorded_items_max / 2);
  return calls * (keyspace::record_bytes_max + key_bytes) + item_count * sizeof(Fingerprint);
}

std::uint64_t calls_of_adds_alone(std::size_t item_count, std::uint32_t layers_max) {
  // Each new layer is told, and before it the items that wait.
  const std::uint64_t of_growth = 2 * std::min<std::uint64_t>(item_count, layers_max);
  // What is removed, what is created, its deadline, and the items that still wait at the end.
  constexpr std::uint64_t once = 4;
  return once + of_growth + item_count / AddsAlone::told_together_max;
}

std::uint64_t record_bytes_of_adds_alone(std::size_t key_bytes, std::size_t item_count,
                                         std::uint32_t layers_max) {
  return calls_of_adds_alone(item_count, layers_max) * (keyspace::record_bytes_max + key_bytes) +
         item_count * sizeof(Fingerprint);
}

}  // namespace sepal::writers
