#include <sepal/base/endian.hpp>
#include <sepal/cuckoo/commands/found.hpp>
#include <sepal/cuckoo/kind/redis_kind.hpp>
#include <sepal/writers/redis_cuckoo_writer.hpp>

#include <algorithm>
#include <utility>

namespace sepal::writers {

using keyspace::DatabaseKey;
using keyspace::Keyspace;
using keyspace::Mutator;

namespace {

using cuckoo::RedisChange;
using cuckoo::RedisFilter;
using cuckoo::RedisTable;
using keyspace::written_bytes_max;
using AddOutcome = cuckoo::Filter::AddOutcome;
using Items = std::span<const std::string_view>;

void tell(Mutator& changes, DatabaseKey key, RedisChange what, std::span<const std::byte> head,
          std::span<const std::byte> bytes) {
  changes.told(true, keyspace::Changed{.key = key,
                                       .kind = RedisFilter::own_kind,
                                       .what = static_cast<std::uint8_t>(what),
                                       .head = head,
                                       .bytes = bytes});
}

// Collects the hashes of items that changed the filter. Its end records those that are left.
class Told {
 public:
  Told(Mutator& changes, DatabaseKey key, RedisChange what) : changes_(changes), key_(key), what_(what) {}
  ~Told() { record(); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  void add(std::uint64_t hash) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof hash);
    store_little_endian(bytes_.data() + at, hash);
    ++count_;
    if (bytes_.size() == written_bytes_max) record();
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  void record() {
    if (bytes_.empty()) return;
    tell(changes_, key_, what_, {}, bytes_);
    bytes_.clear();
  }

  Mutator& changes_;
  const DatabaseKey key_;
  const RedisChange what_;
  std::uint64_t count_ = 0;
  std::vector<std::byte> bytes_;
};
static_assert(written_bytes_max % sizeof(std::uint64_t) == 0, "a record has whole hashes");

}  // namespace

void add(Mutator& changes, DatabaseKey key, RedisFilter& filter, Items items, cuckoo::Filter::AddIf condition,
         std::vector<AddOutcome>& outcomes) noexcept {
  outcomes.clear();
  const std::uint64_t bytes_before = filter.byte_count();
  const std::uint64_t bytes_max = changes.keyspace().value_limits(bytes_before).bytes_max;
  const std::uint32_t layers_max = redis_layers_max_of(changes.keyspace().options());
  RedisTable& table = filter.changing();
  Told told(changes, key, RedisChange::added);
  for (const std::string_view item : items) {
    const std::uint64_t hash = RedisTable::hash_of(item);
    outcomes.push_back(cuckoo::add_to(table, hash, condition, bytes_max, layers_max));
    if (outcomes.back().added) told.add(hash);
  }
  changes.keyspace().resized(key.database, filter, bytes_before);
}

std::uint32_t redis_layers_max_of(const keyspace::KeyspaceOptions& options) {
  return std::min(options.cuckoo_layers_max, options.layers_max);
}

void remove(Mutator& changes, DatabaseKey key, RedisFilter& filter, Items items,
            std::span<bool> removed) noexcept {
  const std::uint64_t bytes_before = filter.byte_count();
  RedisTable& table = filter.changing();
  Told told(changes, key, RedisChange::removed);
  std::size_t at = 0;
  for (const std::string_view item : items) {
    const std::uint64_t hash = RedisTable::hash_of(item);
    removed[at] = table.remove(hash);
    if (removed[at++]) told.add(hash);
  }
  changes.keyspace().resized(key.database, filter, bytes_before);
  changes.keyspace().note_value_changes(told.count());
}

void compact(Mutator& changes, DatabaseKey key, RedisFilter& filter) noexcept {
  const std::uint64_t bytes_before = filter.byte_count();
  filter.changing().compact();
  changes.keyspace().resized(key.database, filter, bytes_before);
  changes.keyspace().note_value_changes(1);
  tell(changes, key, RedisChange::compacted, {}, {});
}

void write(Mutator& changes, DatabaseKey key, RedisFilter& filter, std::uint64_t offset,
           std::span<const std::byte> bytes) noexcept {
  filter.changing().write_at(offset, bytes);
  changes.keyspace().note_value_changes(1);
  constexpr std::size_t piece_max = written_bytes_max - cuckoo::redis_written_head_bytes;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), piece_max));
    tell(changes, key, RedisChange::written, cuckoo::redis_written_head(offset), piece);
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

Result<void> create(Mutator& changes, DatabaseKey key, const cuckoo::RedisHeader& header,
                    WallTime now) noexcept {
  Keyspace& keyspace = changes.keyspace();
  keyspace::KeyPlace place = keyspace.place_for(key);
  const Mutator::KeyLock lock(changes, place);
  changes.expire(place, now);
  const auto limits = keyspace.limits_of_new(place);
  if (!limits) return limits.error();
  auto made = RedisFilter::of(RedisTable::make(header, *limits));
  if (!made) return made.error();
  const auto head = cuckoo::encode_redis_header(header);
  changes.tell_ahead(keyspace::Made{.key = key, .kind = RedisFilter::own_kind, .head = head});
  changes.insert(place, std::move(*made), keyspace::no_deadline);
  return {};
}

std::uint64_t record_bytes_of_redis_items(std::size_t key_bytes, std::size_t item_count) {
  return record_bytes_of_redis_chunk(key_bytes, std::uint64_t{item_count} * sizeof(std::uint64_t));
}

std::uint64_t record_bytes_of_redis_chunk(std::size_t key_bytes, std::uint64_t byte_count) {
  // The removal of a key that is past its deadline, the making, and the last change.
  constexpr std::uint64_t once = 3;
  constexpr std::size_t piece_max = written_bytes_max - cuckoo::redis_written_head_bytes;
  const std::uint64_t calls = once + byte_count / piece_max;
  return calls * (keyspace::record_bytes_max + key_bytes) + byte_count;
}

}  // namespace sepal::writers
