#include <sepal/base/assert.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/filter/kind.hpp>
#include <sepal/bloom/strings/bit_string.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include "keyspace/recorded_add.hpp"

namespace sepal::keyspace {
namespace {

// Adds with the gate closed that are told to the log together, a few at a time. Without a log they are not
// told. A replay repeats the records in their order, so that order matters:
//
//   - Items are told after the layer that counts them, and before a newer layer.
//   - Items of a mirror's target are told before the same items of its source. So a journal that ends in
//     between has no item of the source that the target lacks (decisions/0014).
class AddsAlone {
 public:
  static constexpr std::size_t told_together_max = 32;

  AddsAlone(Keyspace& keyspace, MutationLog* log, DatabaseKey key, bloom::Filter& filter)
      : keyspace_(keyspace), log_(log), key_(key), filter_(filter), layers_(filter.layer_count()) {}

  // Flush `earlier` first: the journal gets the target's items before the source's.
  void tell_after(AddsAlone& earlier) { earlier_ = &earlier; }

  bloom::Filter::AddOutcome add(std::string_view item) {
    if (filter_.in_bitmap(item)) return {};
    const Fingerprint fingerprint = filter_.fingerprint(item);
    // An add that was refused may still have made the filter grow, so note() looks at the layers in any
    // case.
    const auto outcome = keyspace_.add_alone(key_.database, filter_, fingerprint);
    if (log_ != nullptr) note(fingerprint, outcome.added);
    return outcome;
  }
  void tell() {
    if (fingerprints_.empty()) return;
    SEPAL_ASSERT(log_ != nullptr, "items wait to be told, and there is no log");
    if (earlier_ != nullptr) earlier_->tell();
    // With the gate closed no other worker waits for the end of this add. The pair is called because
    // added() ends what begin_add() began.
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
      const auto grown = bloom::grown_record(filter_.newest_layer().plan());
      log_->record(Changed{
          .key = key_, .kind = value::Kind::bloom, .what = bloom::grown_change, .head = grown, .bytes = {}});
    }
    if (!added) return;
    // One record for many items: told one by one, each would repeat the key.
    if (fingerprints_.size() == told_together_max) tell();
    fingerprints_.push_back(fingerprint);
  }

  Keyspace& keyspace_;
  MutationLog* log_;
  DatabaseKey key_;
  bloom::Filter& filter_;
  AddsAlone* earlier_ = nullptr;
  std::uint32_t layers_;
  boost::container::static_vector<Fingerprint, told_together_max> fingerprints_;
};

MirrorState state_after(bloom::Filter::Refusal refusal) {
  switch (refusal) {
    case bloom::Filter::Refusal::full:
      return MirrorState::full;
    case bloom::Filter::Refusal::layer_limit:
      return MirrorState::layer_limit;
    default:
      return MirrorState::no_memory;
  }
}

}  // namespace

bool Mutator::try_add(DatabaseKey key, bloom::Filter& filter, std::span<const std::string_view> items,
                      std::span<bool> added) noexcept {
  changed_ = true;
  // This test is all that mirrors cost an add while there are none.
  if (!keyspace_.mirrors().empty()) return try_add_mirrored(key, filter, items, added);
  return keyspace::try_add(log_, key, filter, items, added);
}

std::optional<bool> Mutator::try_set_bit(DatabaseKey key, const bloom::Filter& string,
                                         std::uint64_t position) noexcept {
  changed_ = true;
  // A watch does not see bits that are set here.
  if (keyspace_.watches().client_count() != 0) return std::nullopt;
  if (log_ == nullptr) return bloom::BitString(string).try_set(position, nullptr);
  KeyRecorder recorder(*log_, key);
  return bloom::BitString(string).try_set(position, &recorder);
}

bool Mutator::try_set_bits(DatabaseKey key, const bloom::Filter& string,
                           std::span<const std::uint64_t> positions, std::span<bool> were_set) noexcept {
  changed_ = true;
  if (keyspace_.watches().client_count() != 0) return false;
  if (log_ == nullptr) return bloom::BitString(string).try_set(positions, were_set, nullptr);
  KeyRecorder recorder(*log_, key);
  return bloom::BitString(string).try_set(positions, were_set, &recorder);
}

Result<void> Mutator::write(DatabaseKey key, std::uint64_t offset,
                            std::span<const std::byte> bytes) noexcept {
  // What the string has already needs no room, and a copy that grows needs all of it.
  auto written = keyspace_.write(key, offset, bytes, keyspace_.filter_limits().bytes_max);
  if (!written) return written;
  tell_written(key, offset, bytes);
  return {};
}

void Mutator::tell_written(DatabaseKey key, std::uint64_t offset, std::span<const std::byte> bytes) {
  do {
    const auto piece = bytes.first(std::min(bytes.size(), written_bytes_max));
    const auto head = bloom::written_head(offset, piece.size());
    told(true, Changed{.key = key,
                       .kind = value::Kind::string,
                       .what = bloom::written_change,
                       .head = head,
                       .bytes = piece});
    bytes = bytes.subspan(piece.size());
    offset += piece.size();
  } while (!bytes.empty());
}

// A small string is told as what is adopted; a larger one as what is written.
Result<void> Mutator::put_string(DatabaseKey key, FilterPtr string, Deadline deadline) noexcept {
  SEPAL_ASSERT(string != nullptr && string->is_string(), "a filter is put where a string is expected");
  if (log_ == nullptr || bloom::whole_image_bytes(*string) <= recorded_image_bytes_max)
    return adopt(key, std::move(string), deadline);
  const bool replaces = keyspace_.find(key) != nullptr;
  // The string is read below, when the keyspace owns it.
  const FilterPtr kept = string;
  if (auto put = keyspace_.put(key, std::move(string), deadline); !put) return put;
  // Bytes that are written do not clear what is there. A replay must begin with no string, and without the
  // deadline of the old one.
  if (replaces) told(true, Removed{.key = key});
  const bloom::BitString bytes(*kept);
  for (std::uint64_t offset = 0; offset < bytes.length(); offset += written_bytes_max) {
    const std::string piece = bytes.text(offset, written_bytes_max);
    tell_written(key, offset, std::as_bytes(std::span(piece)));
  }
  if (deadline != no_deadline) told(true, Expires{.key = key, .deadline = deadline});
  return {};
}

Result<bloom::Filter*> Mutator::create(DatabaseKey key, const bloom::FilterOptions& options) noexcept {
  auto created = keyspace_.create(key, options);
  if (!created) return created;
  const auto head = bloom::made_record(keyspace_.newest_plan());
  return told(std::move(created), Made{.key = key, .kind = value::Kind::bloom, .head = head});
}

Result<void> Mutator::rename(std::uint32_t database, std::string_view from, std::string_view to) noexcept {
  auto renamed = keyspace_.rename(database, from, to);
  // Nothing has changed: no record, and no watch is touched. An error is returned all the same.
  if (from == to) return renamed;
  return told(std::move(renamed), Renamed{.key = {.database = database, .key = from}, .target = to});
}

Result<void> Mutator::adopt(DatabaseKey key, FilterPtr filter, Deadline deadline,
                            const ImageFile& file) noexcept {
  SEPAL_ASSERT(filter != nullptr, "a key would adopt no filter");
  std::vector<std::byte> image;
  if (log_ != nullptr && file.number == 0) {
    // Before put(), which takes the filter away. The record only views these bytes, so they live until
    // told() has returned.
    image = bloom::whole_image(*filter);
    SEPAL_ASSERT(image.size() <= recorded_image_bytes_max, "a filter that is too large for a record");
  }
  return told(keyspace_.put(key, std::move(filter), deadline),
              Adopted{.key = key, .filter = {.image = image, .file = file, .deadline = deadline}});
}

void Mutator::swap_databases(std::uint32_t database, std::uint32_t other) noexcept {
  if (database == other) return;
  keyspace_.swap(database, other);
  told(true, Swapped{.database = database, .other = other});
}

void Mutator::flush(std::uint32_t database) noexcept {
  // A flush of an empty database needs no record. The keyspace hears of it all the same: it renews the
  // number of the contents (Keyspace::contents_of).
  const bool empty = keyspace_.size(database) == 0;
  keyspace_.flush(database);
  told(!empty, Flushed{.database = database});
}

void Mutator::flush_all() noexcept {
  const bool empty = keyspace_.total_size() == 0;
  keyspace_.flush_all();
  told(!empty, FlushedAll{});
}

Result<void> Mutator::begin_mirror(std::uint32_t database, std::string_view source,
                                   std::string_view target) noexcept {
  const DatabaseKey key{.database = database, .key = source};
  const bloom::Filter* const filter = keyspace_.find(key);
  const std::uint64_t items_before = filter == nullptr ? 0 : filter->item_count();
  return told(keyspace_.begin_mirror({.database = database,
                                      .source = std::string(source),
                                      .target = std::string(target),
                                      .state = MirrorState::whole,
                                      .items_before = items_before}),
              Mirrored{.key = key, .target = target, .items_before = items_before});
}

bool Mutator::end_mirror(DatabaseKey source) noexcept {
  return told(keyspace_.end_mirror(source), Mirrored{.key = source, .state = MirrorState::off});
}

// An item goes to the filter first, and then to the target of its mirror. The log hears of them in the other
// order (tell_after). The target also gets what the filter refuses: it is to replace the filter, and the
// client's program may have the item already (decisions/0014). If the target refuses an item, the mirror
// breaks, and the rest of the items goes to the filter alone.
std::size_t Mutator::add_alone(DatabaseKey key, bloom::Filter& filter,
                               std::span<const std::string_view> items,
                               std::vector<bloom::Filter::AddOutcome>& outcomes) noexcept {
  changed_ = true;
  using bloom::Filter;
  outcomes.clear();
  const Mirrors::Link* const link = keyspace_.mirrors().whole_from(filter);
  AddsAlone adds(keyspace_, log_, key, filter);
  std::optional<AddsAlone> of_target;
  if (link != nullptr) adds.tell_after(of_target.emplace(keyspace_, log_, target_key(*link), *link->target));
  std::size_t mirrored_count = 0;
  for (const std::string_view item : items) {
    outcomes.push_back(adds.add(item));
    // The state is read anew each time: break_mirror() changes it in the loop. The link itself stays.
    if (link != nullptr && link->mirror.state == MirrorState::whole) {
      const Filter::Refusal of_mirror = of_target->add(item).refusal;
      if (of_mirror == Filter::Refusal::none) {
        ++mirrored_count;
        continue;
      }
      break_mirror(key, state_after(of_mirror));
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

void Mutator::break_mirror(DatabaseKey source, MirrorState state) {
  // The mirror stays, broken, until a client ends it: so no client takes its target for complete
  // (decisions/0014).
  keyspace_.set_mirror_state(source, state);
  const bloom::Filter* const filter = keyspace_.find(source);
  const Mirrors::Link* const link = filter == nullptr ? nullptr : keyspace_.mirrors().from(*filter);
  SEPAL_ASSERT(link != nullptr && state != MirrorState::whole, "a mirror breaks that is not there");
  const Mirror& broken = link->mirror;
  told(true, Mirrored{.key = source,
                      .target = broken.target,
                      .state = broken.state,
                      .items_before = broken.items_before});
}

std::uint64_t record_bytes_of_adds(std::size_t key_bytes, std::size_t item_count) {
  // A filter tells its new items in pieces. It ends a piece when the next window might not fit, so each
  // piece but the last is more than half full.
  const std::uint64_t calls = 1 + item_count / (bloom::recorded_items_max / 2);
  return calls * (record_bytes_max + key_bytes) + item_count * sizeof(Fingerprint);
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
  return calls_of_adds_alone(item_count, layers_max) * (record_bytes_max + key_bytes) +
         item_count * sizeof(Fingerprint);
}

std::uint64_t record_bytes_of_string(std::size_t key_bytes, std::uint64_t byte_count) {
  // A short string is recorded with the header of its image, and rounded up. It is told in one call, so the
  // room of two others is left for that.
  static_assert(bloom::image_bytes(1) + sizeof(std::uint64_t) <= 2 * record_bytes_max);
  // What is expired, what is removed, and the deadline.
  constexpr std::uint64_t once = 3;
  const std::uint64_t calls = once + 1 + byte_count / written_bytes_max;
  return calls * (record_bytes_max + key_bytes) + byte_count;
}

std::uint64_t record_bytes_of_adoption(std::size_t key_bytes) {
  // The key that is expired, and the filter that is adopted.
  return 2 * (record_bytes_max + key_bytes) + recorded_image_bytes_max;
}

std::uint64_t record_bytes_of_keys(std::span<const std::string_view> keys) {
  std::uint64_t bytes = record_bytes_max;
  // A longer word is no key. Each key may be named twice.
  for (const std::string_view key : keys)
    bytes += 2 * (record_bytes_max + std::min(key.size(), key_bytes_max));
  return bytes;
}

}  // namespace sepal::keyspace
